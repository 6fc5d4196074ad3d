"""Shared code of streams, typed answers and runs: the current call and the message so far."""

from __future__ import annotations

from typing import Protocol

from swink_core import AssistantMessage, Call

__all__ = ["OfStream"]


class _Known(Protocol):
    @property
    def call(self) -> Call: ...
    @property
    def message(self) -> AssistantMessage: ...


class OfStream:
    """Delegates properties to the stream that the object contains."""

    _stream: _Known

    @property
    def call(self) -> Call:
        """The current call, or, after the end, the last call."""
        return self._stream.call

    @property
    def message(self) -> AssistantMessage:
        """The call's answer so far; complete after its terminal event."""
        return self._stream.message

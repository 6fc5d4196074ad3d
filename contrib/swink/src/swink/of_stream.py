"""The base class of streams, typed answers and runs; it provides the current call and message."""

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
    """The base class of objects that wrap a stream; its properties return the wrapped stream's
    values.
    """

    _stream: _Known

    @property
    def call(self) -> Call:
        """The call that the stream is reading; after the stream has ended, its last call."""
        return self._stream.call

    @property
    def message(self) -> AssistantMessage:
        """The part of the answer that has arrived; complete after the call's terminal event."""
        return self._stream.message

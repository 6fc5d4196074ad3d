"""What a stream, a typed answer and a run have in common: a call, and a message that grows."""

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
    """Knows what its stream knows."""

    _stream: _Known

    @property
    def call(self) -> Call:
        """The call under way, or the last one."""
        return self._stream.call

    @property
    def message(self) -> AssistantMessage:
        """What has arrived so far of the call's answer; complete after its terminal event."""
        return self._stream.message

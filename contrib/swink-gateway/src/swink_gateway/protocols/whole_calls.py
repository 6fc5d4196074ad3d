"""Collect tool calls for protocols that send them complete, never in pieces."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from attrs import define, field

from swink_core import StopReason, ToolCallBlock, ToolCallDelta, ToolCallEnd, ToolCallStart
from swink_core.providers import parse_arguments

__all__ = ["WholeCalls"]


@define
class _Call:
    begun: ToolCallStart
    pieces: list[str] = field(factory=list)
    block: ToolCallBlock | None = None


class WholeCalls:
    """Collects tool calls and returns them in the order in which they began.

    A call with empty arguments may have been cut off before its first argument. Such a call is held
    back until another event follows or the answer ends.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[int, _Call] = OrderedDict()  # its first item is found quickly

    def feed(self, event: Any) -> list[ToolCallBlock]:
        """Process an event other than the end of an answer, and return the completed calls."""
        kind = type(event)
        if kind is ToolCallDelta:
            self._calls[event.content_index].pieces.append(event.delta)
        elif kind is ToolCallEnd:
            call = self._calls[event.content_index]
            raw = "".join(call.pieces)
            arguments = parse_arguments(raw)
            state: Any = "invalid" if arguments is None or not call.begun.name else "complete"
            begun, notes = call.begun, event.metadata
            call.block = ToolCallBlock(begun.id, begun.name, arguments or {}, raw, state, notes)
            return self._ready()
        else:
            ready = self._ready(followed=True)
            if kind is ToolCallStart:
                self._calls[event.content_index] = _Call(event)
            return ready
        return []

    def finish(self, reason: StopReason) -> list[ToolCallBlock]:
        """Return the remaining calls at the end of an answer that ended for `reason`."""
        left = self._ready(followed=True)
        for call in left:
            if reason is StopReason.LENGTH and not (call.raw_arguments or "").strip():
                call.state = "truncated"
        return left

    def _ready(self, followed: bool = False) -> list[ToolCallBlock]:
        ready: list[ToolCallBlock] = []
        while self._calls:
            index, call = next(iter(self._calls.items()))
            if call.block is None or not (followed or (call.block.raw_arguments or "").strip()):
                break
            ready.append(call.block)
            del self._calls[index]
        return ready

"""Build a message, complete or partial, from events.

Text is collected in lists and joined only when the message is read, because appending to a string
with `+=` would take quadratic time for a long answer.
"""

from __future__ import annotations

from copy import copy
from functools import cache
from typing import Any

from attrs import define, field
from msgspec import msgpack
from msgspec.structs import replace

from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import DELTAS, RULES
from swink_core.vocabulary.messages import (
    AssistantMessage,
    Block,
    ExtensionBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolCallState,
    parse_arguments,
    synthetic_id,
)
from swink_core.vocabulary.outcome import Cost, StopReason, Usage

_COMPACT_AFTER = 8192
"""After this many deltas, the pieces of each block are joined, so that their number is limited."""


_DATA = {"data", "metadata", "usage", "cost"}

_encode = msgpack.Encoder().encode
_decoder: Any = cache(lambda kind: msgpack.Decoder(kind).decode)

SAME_ID = "tool_call_id_changed"
"""The code of the notice about a tool call that had the id of another call of the answer."""

_NOT_YET: Any = ev.Done(None)  # type: ignore[arg-type]  # the stop reason is set later


@define
class _Open:
    """A block of the message: its first event, its pieces of text, and its last event."""

    start: Any
    parts: list[str] = field(factory=list)
    end: Any = None

    def joined(self) -> str:
        self.parts[:] = ["".join(self.parts)]
        return self.parts[0]


def _own(event: Any) -> Any:
    """Return a copy of an event, so that the message stays the same if the event is changed."""
    own = replace(event)
    for name in _HOLDS[type(event)]:
        held = getattr(event, name)
        if held is not None:
            setattr(own, name, _nested(held))
    return own


_HOLDS = {
    kind: [name for name in kind.__struct_fields__ if name in _DATA] for kind in list[Any](RULES)
}
"""For each class of events, the fields with mutable values."""


def _nested(held: Any) -> Any:
    """Return a deep copy of a value, made by the fastest method for its type."""
    if type(held) is Cost:
        return replace(held)
    if type(held) is Usage and not held.extra:
        return replace(held, extra={})
    try:
        return _decoder(type(held))(_encode(held))
    except Exception:  # it is not plain data
        return copy(held)


class MessageBuilder:
    """Builds a message from events. After a `Retry` event, the message begins anew.

    `id_prefix` makes the generated tool call ids unique.
    """

    def __init__(
        self, provider: str | None = None, model: str | None = None, id_prefix: str = "0"
    ) -> None:
        self.turn_to(provider, model)
        self.terminal: ev.Done | ev.Error | None = None
        self._since_compaction = 0
        self._blocks: list[_Open] = []
        self._prefix = id_prefix
        self._ids: set[str] = set()  # of the tool calls
        self._repeated: list[ev.ToolCallStart] = []  # events with an id of an earlier call

    def feed(self, batch: list[ev.Event]) -> None:
        """Add events, in an order that the grammar allows.

        Results and decisions refer to a tool call by its id. So a call with the id of an earlier
        call gets a generated id, in the message and in `batch`, where a notice precedes its start.
        """
        blocks = self._blocks
        for event in batch:
            kind = type(event)
            if kind in DELTAS:
                delta: str = event.delta  # type: ignore[union-attr]
                blocks[event.content_index].parts.append(delta)  # type: ignore[union-attr]
            else:
                self._fold(event)
        if self._repeated:
            self._rename(batch)
        self._since_compaction += len(batch)
        if self._since_compaction > _COMPACT_AFTER:
            self._since_compaction = 0
            for block in blocks:
                block.joined()

    @property
    def message(self) -> AssistantMessage:
        """The partial message. Each access returns a new copy."""
        end: Any = self.terminal or _NOT_YET
        blocks = [self._block(block) for block in self._blocks]
        who = (self.provider, end.model or self.model)
        known = (end.response_id, end.request_id, end.usage, end.cost, end.stop_reason)
        failed = (getattr(end, "error_kind", None), getattr(end, "error_message", None))
        return AssistantMessage(blocks, *who, *known, *failed, end.metadata)

    @property
    def received(self) -> str:
        """All text received so far: of the answer, of thinking, and of tool calls.

        The text of a tool call consists of the tool's name and the arguments.
        """
        names = (getattr(block.start, "name", None) or "" for block in self._blocks)
        return "".join((*names, *(block.joined() for block in self._blocks)))

    def _block(self, block: _Open) -> Block:
        start = block.start
        raw = block.joined()
        metadata = getattr(block.end, "metadata", None)
        match start:
            case ev.TextStart():
                return TextBlock(raw, metadata)
            case ev.ThinkingStart():
                end = block.end or ev.ThinkingEnd(start.content_index)
                return ThinkingBlock(raw, end.signature, end.redacted, metadata)
            case ev.Extension():
                return ExtensionBlock(start.provider, start.kind, start.data, start.metadata)
        arguments = parse_arguments(raw)
        return ToolCallBlock(
            start.id, start.name, arguments or {}, raw, self._state(block, raw, arguments), metadata
        )

    def _state(self, block: _Open, raw: str, arguments: dict[str, Any] | None) -> ToolCallState:
        terminal = self.terminal
        done = isinstance(terminal, ev.Done) and terminal.stop_reason is not StopReason.LENGTH
        whole = block.end is not None if terminal is None else done
        if arguments is not None and block.start.name and (whole or raw.strip()):
            return "complete"
        return "invalid" if whole else "truncated"

    def _fold(self, event: Any) -> None:
        match RULES[type(event)].effect:
            case "open" | "whole":
                self._blocks.append(_Open(event if type(event) is ev.TextStart else _own(event)))
                if type(event) is ev.ToolCallStart:
                    self._identify(event)
            case "close":
                self._blocks[event.content_index].end = _own(event)
            case "retry":
                self._blocks.clear()
                self._ids.clear()
                self.turn_to(*event.model.split("/", 1))
            case "end":
                self.terminal = _own(event)

    def _identify(self, event: ev.ToolCallStart) -> None:
        """Record the id of a tool call. A call with a known id gets a generated id."""
        start = self._blocks[-1].start
        if start.id in self._ids:
            start.id = synthetic_id(self._prefix, event.content_index)
            self._repeated.append(event)
        self._ids.add(start.id)

    def _rename(self, batch: list[ev.Event]) -> None:
        """Replace the events with repeated ids in a batch."""
        at = 0
        for event in self._repeated:
            while batch[at] is not event:
                at += 1
            index = event.content_index
            detail = f"the id {event.id!r:.80} belongs to an earlier tool call of this answer"
            told = ev.Notice(SAME_ID, f"{detail}; content[{index}].id is now a generated id")
            batch[at : at + 1] = told, replace(event, id=synthetic_id(self._prefix, index))
            at += 2
        self._repeated = []

    def turn_to(self, provider: str | None, model: str | None = "") -> None:
        """Set the provider and the model from which the following events come."""
        self.provider = provider
        self.model = model

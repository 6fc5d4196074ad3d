"""The allowed order of events, as one table.

    stream   = attempt *( Retry attempt ) terminal      ; one terminal; Notice anywhere before it
    attempt  = Start *block-event                       ; all blocks closed before Retry or terminal
    block    = TextStart *TextDelta TextEnd | ThinkingStart *ThinkingDelta ThinkingEnd
             | ToolCallStart *ToolCallDelta ToolCallEnd | Extension
    terminal = Done | Error

A block's `content_index` is the number of blocks that began before it in the attempt; blocks may
overlap. The table `RULES` defines for each event when it is allowed, and its effect on the state of
the stream. The runtime checks, the documentation and the tests use this table. `SHAPES` defines the
types of the event fields that the core reads; the events of plugins are checked against it.
"""

from __future__ import annotations

from sys import float_info
from types import NoneType
from typing import Any, Literal, NamedTuple

import msgspec

from swink_core.vocabulary import events as ev
from swink_core.vocabulary.outcome import Cost, StopReason, StreamErrorKind, Usage

Phase = Literal["before", "attempt", "ended"]

Effect = Literal["begin", "open", "more", "close", "whole", "retry", "end", "none"]


class Rule(NamedTuple):
    """A rule for one class of events: when such an event is allowed, and its effect.

    `block` is the kind of block to which the event belongs, empty if it belongs to none.
    """

    phases: tuple[Phase, ...]
    effect: Effect
    block: str = ""


RULES: dict[type[ev.AssistantMessageEvent], Rule] = {
    ev.Start: Rule(("before",), "begin"),
    ev.TextStart: Rule(("attempt",), "open", "text"),
    ev.TextDelta: Rule(("attempt",), "more", "text"),
    ev.TextEnd: Rule(("attempt",), "close", "text"),
    ev.ThinkingStart: Rule(("attempt",), "open", "thinking"),
    ev.ThinkingDelta: Rule(("attempt",), "more", "thinking"),
    ev.ThinkingEnd: Rule(("attempt",), "close", "thinking"),
    ev.ToolCallStart: Rule(("attempt",), "open", "tool_call"),
    ev.ToolCallDelta: Rule(("attempt",), "more", "tool_call"),
    ev.ToolCallEnd: Rule(("attempt",), "close", "tool_call"),
    ev.Extension: Rule(("attempt",), "whole", "extension"),
    ev.Notice: Rule(("before", "attempt"), "none"),
    ev.Retry: Rule(("attempt",), "retry"),
    ev.Done: Rule(("attempt",), "end"),
    ev.Error: Rule(("attempt",), "end"),
}


def _that(*effects: Effect) -> frozenset[type[ev.AssistantMessageEvent]]:
    return frozenset(kind for kind, rule in RULES.items() if rule.effect in effects)


CONTENT = _that("open", "whole")
"""The events that contain content."""

DELTAS = _that("more")
_MORE = {kind: rule.block for kind, rule in RULES.items() if rule.effect == "more"}
TERMINAL = _that("end")
ENDS: dict[str, Any] = {rule.block: kind for kind, rule in RULES.items() if rule.effect == "close"}
"""Maps each kind of block to the class of the event that closes it.

The class is called with the block's `content_index`.
"""

SHAPES: dict[str, tuple[type, ...]] = {
    "delta": (str,),
    "id": (str,),
    "name": (str,),
    "stop_reason": (StopReason,),
    "usage": (Usage, NoneType),
    "cost": (Cost, NoneType),
    "error_message": (str, NoneType),
    "error_kind": (StreamErrorKind, NoneType),
    "retry_after": (float, int, NoneType),
    "code": (str, int, NoneType),
}

_SHAPED = {kind: tuple(name for name in kind.__struct_fields__ if name in SHAPES) for kind in RULES}


_WHERE: dict[Phase, str] = {
    "before": "before start", "attempt": "inside an attempt", "ended": "after the terminal event",
}  # fmt: skip


_KEPT = ("id", "name", "kind", "data", "signature", "metadata")


def _kept_of(event: Any) -> int:
    """Return the size of an event's content in a message: a delta's text, or JSON data."""
    if type(event) in DELTAS:
        return len(event.delta)
    facts = [fact for name in _KEPT if (fact := getattr(event, name, None)) is not None]
    try:
        return len(msgspec.json.encode(facts)) if facts else 0
    except (TypeError, ValueError, OverflowError, RecursionError):
        return len(repr(facts))


class Automaton:
    """Follows a stream, and reports the rule that an event violates.

    `open` maps the indexes of the open blocks to their kinds. `started` is the number of blocks
    that have begun in the attempt, and `kept` the approximate number of characters in a message
    with the attempt's content; `discarded` is the same for the content before the last `Retry`.
    """

    def __init__(self) -> None:
        self.phase: Phase = "before"
        self.open: dict[int, str] = {}
        self.started = 0
        self.kept = 0
        self.discarded = 0

    def step(self, event: ev.AssistantMessageEvent) -> str | None:
        """Process one event and return `None`, or a description of the violated rule.

        An event that violates a rule does not change the state.
        """
        if (block := _MORE.get(type(event))) and self.phase == "attempt":  # nearly every event
            more: Any = event
            if self.open.get(more.content_index) == block and type(more.delta) is str:
                self.kept += len(more.delta)
                return None
        broken = self._broken_rule(event)
        if broken is None:
            self.kept += _kept_of(event)
            if type(event) is ev.Retry:
                self.discarded += self.kept
                self.kept = 0
        return broken

    def _broken_rule(self, event: ev.AssistantMessageEvent) -> str | None:
        rule = RULES.get(type(event))
        if rule is None:
            return f"{type(event).__name__} is not an event of the protocol"
        if self.phase not in rule.phases:
            return f"{event.type} {_WHERE[self.phase]}"
        for name in _SHAPED[type(event)]:
            value = getattr(event, name)
            if not isinstance(value, SHAPES[name]):
                return f"{event.type} whose {name} is of type {type(value).__name__}"
        if rule.effect in ("open", "more", "close", "whole"):
            return self._block(event.content_index, event.type, rule)  # type: ignore[attr-defined]
        if type(event) is ev.Done and event.stop_reason in (StopReason.ERROR, StopReason.ABORTED):
            return f"done whose stop_reason is {event.stop_reason}"
        if type(event) is ev.Error and not abs(event.retry_after or 0) <= float_info.max:
            return f"error whose retry_after is {event.retry_after}, not a finite number"
        if rule.effect in ("retry", "end"):
            if self.open:
                return f"{event.type} with open blocks: {', '.join(map(str, self.open))}"
            self.phase = "ended" if rule.effect == "end" else "before"
        elif rule.effect == "begin":
            self.phase = "attempt"
            self.started = 0
        return None

    def closing(self) -> list[ev.Event]:
        """Return the events that close every open block, and process them."""
        events = [ENDS[kind](index) for index, kind in self.open.items()]
        self.open.clear()
        return events

    def _block(self, index: int, name: str, rule: Rule) -> str | None:
        if rule.effect in ("open", "whole"):
            if index != self.started:
                return f"{name} with content_index {index!r}, expected {self.started}"
            self.started += 1
            if rule.effect == "open":
                self.open[index] = rule.block
            return None
        kind = self.open.get(index)
        if kind is None:
            return f"{name} names block {index!r}, which is not open"
        if kind != rule.block:
            return f"{name} names block {index}, which is a {kind} block"
        if rule.effect == "close":
            del self.open[index]
        return None

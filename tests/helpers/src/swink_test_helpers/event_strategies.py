"""Hypothesis strategies for events: whole streams of them, as the grammar allows.

`event_streams` walks the automaton of the grammar: at each step it draws one of the events that
`RULES` allows there, so every stream that the grammar allows can come out, and nothing else.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from swink_core import (
    StopReason,
    StreamErrorKind,
)
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.grammar import RULES, Automaton, Rule
from swink_test_helpers.strategies import (
    _cost_or_none,
    _deltas,
    _json,
    _metadata,
    _name_or_none,
    _names,
    _seconds,
    _successes,
    _text_or_none,
    _texts,
    _usage_or_none,
)

__all__ = ["event_streams"]

_facts: dict[str, st.SearchStrategy[Any]] = {
    "usage": _usage_or_none,
    "cost": _cost_or_none,
    "response_id": _name_or_none,
    "model": _name_or_none,
    "request_id": _name_or_none,
    "metadata": _metadata,
}

_FIELDS: dict[type[ev.AssistantMessageEvent], dict[str, st.SearchStrategy[Any]]] = {
    ev.Start: {},
    ev.TextStart: {},
    ev.TextDelta: {"delta": _deltas},
    ev.TextEnd: {"metadata": _metadata},
    ev.ThinkingStart: {},
    ev.ThinkingDelta: {"delta": _deltas},
    ev.ThinkingEnd: {
        "signature": _name_or_none,
        "redacted": st.booleans(),
        "metadata": _metadata,
    },
    ev.ToolCallStart: {"id": _names, "name": _names},
    ev.ToolCallDelta: {"delta": _deltas | st.sampled_from(['{"a":', " 1", "}", "{}"])},
    ev.ToolCallEnd: {"metadata": _metadata},
    ev.Extension: {
        "provider": _names,
        "kind": _names,
        "data": _json,
        "metadata": _metadata,
    },
    ev.Notice: {"code": _names, "detail": _texts},
    ev.Retry: {
        "attempt": st.integers(1, 6),
        "max_attempts": st.integers(6, 9),
        "delay": _seconds,
        "error": _texts,
        "model": st.builds("{}/{}".format, _names, _names),
        "error_kind": st.none() | st.sampled_from(StreamErrorKind),
        "code": st.none() | _names,
    },
    ev.Done: {"stop_reason": _successes, **_facts},
    ev.Error: {
        "stop_reason": st.sampled_from([StopReason.ERROR, StopReason.ABORTED]),
        "error_message": _texts,
        "error_kind": st.none() | st.sampled_from(StreamErrorKind),
        "retry_after": st.none() | _seconds,
        "status": st.none() | st.integers(100, 599),
        "phase": st.none() | st.sampled_from(["connect", "request", "streaming", "finalize"]),
        "title": _text_or_none,
        "resolution": _text_or_none,
        "code": _name_or_none,
        **_facts,
    },
}


MOST_EVENTS = 30


@st.composite
def event_streams(draw: st.DrawFn) -> list[ev.AssistantMessageEvent]:
    """Draw whole streams, each with its one terminal event.

    After `MOST_EVENTS` a stream closes its blocks and ends, so it may be somewhat longer.
    """
    automaton = Automaton()
    events: list[ev.AssistantMessageEvent] = []
    while automaton.phase != "ended":
        kinds = [kind for kind, rule in RULES.items() if _may(rule, automaton)]
        if len(events) >= MOST_EVENTS:
            kinds = [kind for kind in kinds if RULES[kind].effect in ("begin", "close", "end")]
        event = _event(draw, draw(st.sampled_from(kinds)), automaton)
        broken = automaton.step(event)
        assert broken is None, broken
        events.append(event)
    return events


def _may(rule: Rule, automaton: Automaton) -> bool:
    if automaton.phase not in rule.phases:
        return False
    if rule.effect in ("more", "close"):
        return rule.block in automaton.open.values()
    return rule.effect not in ("retry", "end") or not automaton.open


def _event(
    draw: st.DrawFn, kind: type[ev.AssistantMessageEvent], automaton: Automaton
) -> ev.AssistantMessageEvent:
    rule = RULES[kind]
    fields = {name: draw(values) for name, values in _FIELDS[kind].items()}
    if rule.effect in ("open", "whole"):
        fields["content_index"] = automaton.started
    elif rule.effect in ("more", "close"):
        blocks = [index for index, block in automaton.open.items() if block == rule.block]
        fields["content_index"] = draw(st.sampled_from(blocks))
    return kind(**fields)

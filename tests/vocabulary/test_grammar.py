"""The event grammar: every transition that it forbids, by the rule that forbids it."""

from __future__ import annotations

import json
from datetime import timedelta
from math import inf, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import swink_core as swink
from swink_core import (
    Done,
    Error,
    Extension,
    Notice,
    Retry,
    Start,
    StopReason,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from swink_core.vocabulary.grammar import RULES, Automaton
from swink_test_helpers.event_strategies import event_streams

DONE = Done(StopReason.STOP)
RETRY = Retry(2, 3, 0.0, "so", "toy/large")
EXTENSION = Extension(0, "toy", "k", None)

# One of each event, as the first that could be meant.
ONE_OF_EACH: list[Any] = [
    Start(),
    TextStart(0),
    TextDelta(0, "x"),
    TextEnd(0),
    ThinkingStart(0),
    ThinkingDelta(0, "x"),
    ThinkingEnd(0),
    ToolCallStart(0, "a", "f"),
    ToolCallDelta(0, "x"),
    ToolCallEnd(0),
    EXTENSION,
    Notice("n"),
    RETRY,
    DONE,
    Error(),
]

STATES: dict[str, list[Any]] = {
    "before": [],
    "attempt": [Start()],
    "in text": [Start(), TextStart(0)],
    "in thinking": [Start(), ThinkingStart(0)],
    "in a tool call": [Start(), ToolCallStart(0, "a", "f")],
    "after a block": [Start(), TextStart(0), TextEnd(0)],
    "after a retry": [Start(), RETRY],
    "ended": [Start(), DONE],
}

_NOT_OPEN = "names block 0, which is not open"
_TAKEN = "with content_index 0, expected 1"


def _inside(block: str, kind: str) -> dict[str, str | None]:
    """Events that one open block forbids: those of other blocks, and the ends of the attempt."""
    others = {"text", "thinking", "tool_call"} - {kind}
    return (
        {"start": "start inside an attempt", "extension": f"extension {_TAKEN}"}
        | {f"{k}_start": f"{k}_start {_TAKEN}" for k in ("text", "thinking", "tool_call")}
        | {
            f"{k}_{end}": f"{k}_{end} names block 0, which is a {kind} block"
            for k in others
            for end in ("delta", "end")
        }
        | {end: f"{end} with open blocks: 0" for end in ("retry", "done", "error")}
    )


_BEFORE = {
    event.type: f"{event.type} before start"
    for event in ONE_OF_EACH
    if not isinstance(event, Start | Notice)
}
_UNOPENED = {
    f"{kind}_{end}": f"{kind}_{end} {_NOT_OPEN}"
    for kind in ("text", "thinking", "tool_call")
    for end in ("delta", "end")
}

# For each state, the events that it forbids and the rule in words; all others it allows.
FORBIDDEN: dict[str, dict[str, str | None]] = {
    "before": {**_BEFORE},
    "attempt": {"start": "start inside an attempt", **_UNOPENED},
    "in text": _inside("text", "text"),
    "in thinking": _inside("thinking", "thinking"),
    "in a tool call": _inside("tool_call", "tool_call"),
    "after a block": {
        "start": "start inside an attempt",
        **_UNOPENED,
        **{f"{k}_start": f"{k}_start {_TAKEN}" for k in ("text", "thinking", "tool_call")},
        "extension": f"extension {_TAKEN}",
    },
    "after a retry": {**_BEFORE},
    "ended": {event.type: f"{event.type} after the terminal event" for event in ONE_OF_EACH},
}


def after(events: list[Any]) -> Automaton:
    automaton = Automaton()
    for event in events:
        assert automaton.step(event) is None
    return automaton


@pytest.mark.parametrize("event", ONE_OF_EACH, ids=lambda event: event.type)
@pytest.mark.parametrize("state", STATES)
def test_each_state_forbids_what_it_forbids_and_allows_the_rest(state: str, event: Any) -> None:
    assert after(STATES[state]).step(event) == FORBIDDEN[state].get(event.type)


def test_the_tables_above_know_every_event() -> None:
    assert {type(event) for event in ONE_OF_EACH} == set(RULES)


# (name, events that are allowed, event, rule)
MORE: list[tuple[str, list[Any], Any, str]] = [
    ("a_number_repeated", STATES["after a block"], TextStart(0), "content_index 0, expected 1"),
    ("a_number_left_out", STATES["after a block"], TextStart(2), "content_index 2, expected 1"),
    ("a_negative_number", [Start()], TextStart(-1), "content_index -1, expected 0"),
    ("a_number_as_text", [Start()], TextStart("0"), "content_index '0', expected 0"),  # type: ignore[arg-type]  # on purpose
    ("a_block_of_the_attempt_before", [*STATES["in text"], TextEnd(0), RETRY, Start()],
     TextDelta(0, "x"), "text_delta names block 0, which is not open"),
    ("two_open_blocks", [Start(), ToolCallStart(0, "a", "f"), ToolCallStart(1, "b", "f")],
     DONE, "done with open blocks: 0, 1"),
    ("no_event", [Start()], None, "NoneType is not an event of the protocol"),
    ("the_base_class", [Start()], swink.AssistantMessageEvent(), "AssistantMessageEvent is not an"),
    ("a_message", [Start()], swink.UserMessage("x"), "UserMessage is not an event"),
    ("no_text", STATES["in text"], TextDelta(0, None), "whose delta is of type NoneType"),  # type: ignore[arg-type]  # on purpose
    ("bytes", STATES["in text"], TextDelta(0, b"x"), "whose delta is of type bytes"),  # type: ignore[arg-type]  # on purpose
    ("no_id", [Start()], ToolCallStart(0, None, "f"), "whose id is of type NoneType"),  # type: ignore[arg-type]  # on purpose
    ("no_name", [Start()], ToolCallStart(0, "a", None), "whose name is of type NoneType"),  # type: ignore[arg-type]  # on purpose
    ("a_reason_as_text", [Start()], Done("stop"), "whose stop_reason is of type str"),  # type: ignore[arg-type]  # on purpose
    ("done_in_error", [Start()], Done(StopReason.ERROR), "done whose stop_reason is error"),
    ("done_aborted", [Start()], Done(StopReason.ABORTED), "done whose stop_reason is aborted"),
    ("usage_as_a_dict", [Start()], Done(StopReason.STOP, {}), "whose usage is of type dict"),  # type: ignore[arg-type]  # on purpose
]  # fmt: skip


@pytest.mark.parametrize(
    ("allowed", "event", "rule"), [case[1:] for case in MORE], ids=[case[0] for case in MORE]
)
def test_a_broken_rule_is_named(allowed: list[Any], event: Any, rule: str) -> None:
    broken = after(allowed).step(event)
    assert broken is not None
    assert rule in broken


@given(event_streams(), st.data())
def test_after_a_broken_rule_the_automaton_stands_where_it_stood(
    events: list[swink.AssistantMessageEvent], data: st.DataObject
) -> None:
    automaton = Automaton()
    for event in events:
        other = data.draw(st.sampled_from(ONE_OF_EACH))
        before = (automaton.phase, dict(automaton.open), automaton.started)
        probe = after([])
        probe.phase, probe.open, probe.started = before[0], dict(before[1]), before[2]
        if probe.step(other) is not None:
            assert automaton.step(other) is not None
        assert (automaton.phase, automaton.open, automaton.started) == before
        assert automaton.step(event) is None
    assert automaton.phase == "ended"


def test_numbers_begin_anew_with_each_attempt() -> None:
    events = [Start(), TextStart(0), TextEnd(0), RETRY, Start(), TextStart(0), TextEnd(0), DONE]
    assert after(events).phase == "ended"


def test_a_notice_may_come_anywhere_before_the_end() -> None:
    notice = Notice("n")
    events = [notice, Start(), notice, TextStart(0), notice, TextEnd(0), RETRY, notice, Start()]
    assert after([*events, notice, DONE]).phase == "ended"


def test_text_of_a_kind_of_its_own_is_text() -> None:
    automaton = Automaton()
    given = [Start(), TextStart(0), TextDelta(0, Marked("x")), TextEnd(0), DONE]
    assert [automaton.step(event) for event in given] == [None] * len(given)


class Marked(str):
    """Text of another library's."""

    __slots__ = ()


# (name, events of an attempt, the characters that are kept of them)
KEPT: list[tuple[str, list[Any], int]] = [
    ("nothing", [], 0),
    ("text", [TextStart(0), TextDelta(0, "abc"), TextDelta(0, "d"), TextEnd(0)], 4),
    ("marked_text", [TextStart(0), TextDelta(0, Marked("abc"))], 3),
    ("a_call", [ToolCallStart(0, "a", "f"), ToolCallDelta(0, "{}")], len('["a","f"]{}')),
    ("a_signature", [ThinkingStart(0), ThinkingEnd(0, "sig")], len('["sig"]')),
    ("metadata", [TextStart(0), TextEnd(0, {"x": 1})], len('[{"x":1}]')),
    ("an_extension", [Extension(0, "toy", "k", [1, {}])], len('["k",[1,{}]]')),
    ("data_that_is_no_json", [Extension(0, "toy", "k", 1j)], len("['k', 1j]")),
    ("an_event_that_breaks_a_rule", [TextStart(0), TextStart(0), TextDelta(1, "abc")], 0),
    ("what_is_tried_again", [TextStart(0), TextDelta(0, "abc"), TextEnd(0), RETRY], 0),
    ("what_follows", [TextStart(0), TextDelta(0, "a"), TextEnd(0), RETRY, Start(), TextStart(0),
     TextDelta(0, "bc")], 2),
]  # fmt: skip


@pytest.mark.parametrize(("events", "kept"), [k[1:] for k in KEPT], ids=[k[0] for k in KEPT])
def test_the_characters_of_an_attempts_content_are_counted(events: list[Any], kept: int) -> None:
    automaton = Automaton()
    assert (automaton.kept, automaton.started) == (0, 0)
    for event in [Start(), *events]:
        automaton.step(event)
    assert automaton.kept == kept


def test_the_characters_before_each_retry_are_counted() -> None:
    automaton = Automaton()
    for text in ("abc", "de"):
        for event in [Start(), TextStart(0), TextDelta(0, text), TextEnd(0), RETRY]:
            automaton.step(event)
    assert (automaton.kept, automaton.discarded) == (0, 5)


def test_open_blocks_are_closed_in_their_order() -> None:
    automaton = after([Start(), TextStart(0), ThinkingStart(1), ToolCallStart(2, "a", "f")])
    assert automaton.closing() == [TextEnd(0), ThinkingEnd(1), ToolCallEnd(2)]
    assert automaton.closing() == []
    assert automaton.step(DONE) is None


# (event, what of it has another type)
MISSHAPEN: list[tuple[Any, str]] = [
    (TextStart(None), "content_index None, expected 0"),
    (ToolCallStart(0, 5, "f"), "tool_call_start whose id is of type int"),
    (ToolCallStart(0, "a", None), "tool_call_start whose name is of type NoneType"),
    (Done("stop"), "done whose stop_reason is of type str"),
    (Done(StopReason.STOP, {"input": 1}), "done whose usage is of type dict"),
    (Done(StopReason.STOP, None, 0.5), "done whose cost is of type float"),
    (Error(usage={"input": 1}), "error whose usage is of type dict"),
    (Error(cost=0.5), "error whose cost is of type float"),
    (Error(error_message=b"slow down"), "error whose error_message is of type bytes"),
    (Error(error_message=ValueError("x")), "error whose error_message is of type ValueError"),
    (Error(error_kind="overload"), "error whose error_kind is of type str"),
    (Error(code=["busy"]), "error whose code is of type list"),
    (Error(retry_after="5"), "error whose retry_after is of type str"),
    (Error(retry_after=timedelta(seconds=5)), "error whose retry_after is of type timedelta"),
    (Error.throttled("slow down", nan), "error whose retry_after is nan, not a finite number"),
    (Error.throttled("slow down", inf), "error whose retry_after is inf, not a finite number"),
    (swink.replace(RETRY, error_kind="overload"), "retry whose error_kind is of type str"),
]


@pytest.mark.parametrize(("event", "rule"), MISSHAPEN)
def test_fields_of_an_event_have_their_types(event: Any, rule: str) -> None:
    automaton = Automaton()
    automaton.step(Start())
    assert rule in (automaton.step(event) or "")
    assert automaton.phase == "attempt"


# (an event that begins or ends a block, what of it a message keeps)
KEPT: list[tuple[Any, list[Any]]] = [
    (TextStart(0), []),
    (TextEnd(0, {"a": 1}), [{"a": 1}]),
    (ThinkingEnd(0, "signed"), ["signed"]),
    (ThinkingEnd(0, "signed", True, {"a": 1}), ["signed", {"a": 1}]),
    (ToolCallStart(0, "call", "weather"), ["call", "weather"]),
    (ToolCallEnd(0, {"a": 1}), [{"a": 1}]),
    (Extension(0, "toy", "kind", {"a": 1}), ["kind", {"a": 1}]),
    (Extension(0, "toy", "kind", {"a": 1}, {"b": 2}), ["kind", {"a": 1}, {"b": 2}]),
]


@pytest.mark.parametrize(("event", "facts"), KEPT, ids=str)
def test_all_that_a_message_keeps_of_an_event_counts(event: Any, facts: list[Any]) -> None:
    before = {
        TextEnd: [TextStart(0)], ThinkingEnd: [ThinkingStart(0)],
        ToolCallEnd: [ToolCallStart(0, "", "")],
    }  # fmt: skip
    automaton = after([Start(), *before.get(type(event), [])])
    kept = automaton.kept
    assert automaton.step(event) is None
    assert automaton.kept - kept == (len(json.dumps(facts, separators=(",", ":"))) if facts else 0)

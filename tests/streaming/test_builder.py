"""Events back to a message, whole or cut anywhere."""

from __future__ import annotations

from copy import copy
from typing import Any

import pytest
from fakes import broken_rules
from hypothesis import given
from hypothesis import strategies as st

import swink_core as swink
from swink_core import (
    AssistantMessage,
    Done,
    Error,
    ExtensionBlock,
    Notice,
    Retry,
    Start,
    StopReason,
    TextBlock,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingBlock,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallBlock,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from swink_core.streaming.builder import MessageBuilder
from swink_core.vocabulary.grammar import Automaton
from swink_test_helpers.event_strategies import event_streams


def built(*events: Any) -> AssistantMessage:
    builder = MessageBuilder("toy", "large")
    builder.feed([*events])
    return builder.message


@pytest.mark.parametrize("inner", [[1], object()], ids=["data", "anything"])
def test_changes_to_an_event_do_not_change_the_message(inner: Any) -> None:
    data = {"q": inner}
    event = swink.Extension(0, "toy", "search", data)
    message = built(Start(), event, Done(StopReason.STOP))
    data["q"] = None
    [block] = message.content
    assert block == ExtensionBlock("toy", "search", {"q": inner})


USAGE, COST = swink.Usage(input=1, reported=True), swink.Cost(total=0.5)

# (name, events, message)
FOLDS: list[tuple[str, list[Any], AssistantMessage]] = [
    ("nothing", [], AssistantMessage([], "toy", "large")),
    ("a_start", [Start()], AssistantMessage([], "toy", "large")),
    (
        "text_thinking_and_an_extension",
        [
            Start(),
            ThinkingStart(0),
            ThinkingDelta(0, "H"),
            ThinkingDelta(0, "m"),
            ThinkingEnd(0, "sig", True, {"m": 1}),
            TextStart(1),
            TextDelta(1, "a"),
            TextDelta(1, "b"),
            TextEnd(1, {"m": 2}),
            swink.Extension(2, "toy", "search", {"q": 1}, {"m": 3}),
        ],
        AssistantMessage(
            [
                ThinkingBlock("Hm", "sig", True, {"m": 1}),
                TextBlock("ab", {"m": 2}),
                ExtensionBlock("toy", "search", {"q": 1}, {"m": 3}),
            ],
            "toy",
            "large",
        ),
    ),
    (
        "blocks_that_overlap",
        [
            Start(),
            ToolCallStart(0, "a", "f"),
            ToolCallStart(1, "b", "g"),
            ToolCallDelta(0, '{"x":'),
            ToolCallDelta(1, "{}"),
            ToolCallEnd(1, {"m": 1}),
            ToolCallDelta(0, "1}"),
            ToolCallEnd(0),
        ],
        AssistantMessage(
            [
                ToolCallBlock("a", "f", {"x": 1}, '{"x":1}'),
                ToolCallBlock("b", "g", {}, "{}", metadata={"m": 1}),
            ],
            "toy",
            "large",
        ),
    ),
    (
        "the_end_says_what_is_known",
        [Start(), Done(StopReason.LENGTH, USAGE, COST, "r1", "large-2", "q1", {"a": 1})],
        AssistantMessage(
            [], "toy", "large-2", "r1", "q1", USAGE, COST, StopReason.LENGTH, metadata={"a": 1}
        ),
    ),
    (
        "an_error_says_what_is_known",
        [
            Start(),
            Error(
                error_message="so",
                error_kind=swink.StreamErrorKind.NETWORK,
                usage=USAGE,
                cost=COST,
                response_id="r1",
                request_id="q1",
                metadata={"a": 1},
            ),
        ],
        AssistantMessage(
            [],
            "toy",
            "large",
            "r1",
            "q1",
            USAGE,
            COST,
            StopReason.ERROR,
            swink.StreamErrorKind.NETWORK,
            "so",
            {"a": 1},
        ),
    ),
    (
        "a_retry_voids_what_came_before_it",
        [
            Start(),
            TextStart(0),
            TextDelta(0, "gone"),
            TextEnd(0),
            Notice("n"),
            Retry(2, 3, 0.0, "so", "other/small"),
            Start(),
            TextStart(0),
            TextDelta(0, "kept"),
        ],
        AssistantMessage([TextBlock("kept")], "other", "small"),
    ),
    (
        "a_retry_alone_leaves_nothing",
        [Start(), TextStart(0), TextEnd(0), Retry(2, 3, 0.0, "so", "toy/large")],
        AssistantMessage([], "toy", "large"),
    ),
]


@pytest.mark.parametrize(
    ("events", "message"), [case[1:] for case in FOLDS], ids=[case[0] for case in FOLDS]
)
def test_events_fold_to_the_message(events: list[Any], message: AssistantMessage) -> None:
    assert [rule for rule in broken_rules(events) if rule != "no terminal event"] == []
    assert built(*events) == message


ARGUMENTS = '{"a": {"b": [1, "}"]}}'
WHOLE = {"a": {"b": [1, "}"]}}
LENGTH, TOOL_USE = Done(StopReason.LENGTH), Done(StopReason.TOOL_USE)
CUT = Error(error_kind=swink.StreamErrorKind.NETWORK)
ABORTED = Error(StopReason.ABORTED, error_kind=swink.StreamErrorKind.CANCELLED)

# (how the stream ends, the state of a call whose arguments are cut, and of one that has none)
ENDS = [
    ("completed", [ToolCallEnd(0), TOOL_USE], "invalid", "complete"),
    ("filtered", [ToolCallEnd(0), Done(StopReason.CONTENT_FILTER)], "invalid", "complete"),
    ("at_the_length_limit", [ToolCallEnd(0), LENGTH], "truncated", "truncated"),
    ("by_a_failure", [ToolCallEnd(0), CUT], "truncated", "truncated"),
    ("by_the_caller", [ToolCallEnd(0), ABORTED], "truncated", "truncated"),
    ("not_yet", [], "truncated", "truncated"),
    ("the_call_only", [ToolCallEnd(0)], "invalid", "complete"),
]


@pytest.mark.parametrize(
    ("end", "cut", "empty"), [case[1:] for case in ENDS], ids=[case[0] for case in ENDS]
)
def test_arguments_cut_anywhere_keep_their_text_and_say_so(
    end: list[Any], cut: str, empty: str
) -> None:
    def read(raw: str) -> tuple[str, str, Any]:
        deltas = [ToolCallDelta(0, raw)] if raw else []
        (call,) = built(Start(), ToolCallStart(0, "a", "f"), *deltas, *end).tool_calls
        return call.raw_arguments, call.state, call.arguments

    cuts = [ARGUMENTS[:at] for at in range(1, len(ARGUMENTS))]
    assert [wrong for raw in cuts if (wrong := read(raw)) != (raw, cut, {})] == []
    assert read("") == ("", empty, {})
    assert read(ARGUMENTS) == (ARGUMENTS, "complete", WHOLE)


# (name, argument text, arguments, state) of a call that was completed
STATES: list[tuple[str, str, dict[str, Any], str]] = [
    ("empty_is_an_empty_object", "", {}, "complete"),
    ("blank_is_an_empty_object", " \n", {}, "complete"),
    ("an_object", '{"a": 1}', {"a": 1}, "complete"),
    ("an_object_in_space", ' {"a": 1}\n', {"a": 1}, "complete"),
    ("a_list", "[1]", {}, "invalid"),
    ("a_string", '"a"', {}, "invalid"),
    ("null", "null", {}, "invalid"),
    ("prose", "I cannot", {}, "invalid"),
    ("two_objects", "{}{}", {}, "invalid"),
    ("a_lone_surrogate", '{"a": "\\ud83e"}', {"a": "\ud83e"}, "complete"),
    ("a_trailing_comma", '{"a": 1,}', {}, "invalid"),
]


@pytest.mark.parametrize(
    ("raw", "arguments", "state"), [case[1:] for case in STATES], ids=[case[0] for case in STATES]
)
def test_arguments_are_an_object_or_invalid(
    raw: str, arguments: dict[str, Any], state: str
) -> None:
    events = [Start(), ToolCallStart(0, "a", "f"), ToolCallDelta(0, raw), ToolCallEnd(0), TOOL_USE]
    assert built(*events).tool_calls == [ToolCallBlock("a", "f", arguments, raw, state)]  # type: ignore[arg-type]  # a state


REPEATED: list[Any] = [
    Start(),
    ToolCallStart(0, "a", "f"),
    ToolCallEnd(0),
    ToolCallStart(1, "a", "f"),
    ToolCallDelta(1, "{}"),
    ToolCallStart(2, "a", "g"),
    ToolCallEnd(2),
    ToolCallEnd(1),
]


def test_a_call_with_the_id_of_an_earlier_one_gets_a_generated_id_in_message_and_events() -> None:
    given = [copy(event) for event in REPEATED]
    builder, batch = MessageBuilder(id_prefix="7f"), [*given]
    builder.feed(batch)
    ids = ["a", "swink_call_7f_1", "swink_call_7f_2"]
    assert [call.id for call in builder.message.tool_calls] == ids
    assert [event.id for event in batch if isinstance(event, ToolCallStart)] == ids
    assert [type(event) for event in batch] == [
        Start, ToolCallStart, ToolCallEnd, Notice, ToolCallStart, ToolCallDelta,
        Notice, ToolCallStart, ToolCallEnd, ToolCallEnd,
    ]  # fmt: skip
    assert batch[3] == Notice(
        "tool_call_id_changed",
        "the id 'a' belongs to an earlier tool call of this answer; "
        "content[1].id is now a generated id",
    )
    assert given == REPEATED  # the plugin may use its events again


def test_ids_of_a_discarded_answer_may_come_again() -> None:
    batch: list[Any] = [*REPEATED[:3], Retry(2, 2, 0, "again", "toy/large"), *REPEATED[:3]]
    builder = MessageBuilder()
    builder.feed(batch)
    assert [call.id for call in builder.message.tool_calls] == ["a"]
    assert not any(isinstance(event, Notice) for event in batch)


def test_a_call_without_a_name_is_invalid() -> None:
    events = [Start(), ToolCallStart(0, "a", ""), ToolCallDelta(0, '{"x": 1}'), ToolCallEnd(0)]
    assert built(*events, TOOL_USE).tool_calls[0].state == "invalid"


@given(event_streams(), st.data())
def test_a_stream_cut_after_any_event_can_be_closed_and_its_message_stays_the_same(
    events: list[swink.AssistantMessageEvent], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(events) - 1))
    head = events[:cut]
    builder = MessageBuilder()
    builder.feed(head)
    before = builder.message
    grammar = Automaton()
    assert [grammar.step(event) for event in head] == [None] * cut
    in_attempt = grammar.phase == "attempt"
    closing = grammar.closing()
    if not in_attempt:  # nothing was begun, or a retry is due
        assert closing == []
        return
    builder.feed(closing)
    assert broken_rules([*head, *closing, Error()]) == []
    texts = [(block.type, getattr(block, "text", None)) for block in before.content]
    assert [(b.type, getattr(b, "text", None)) for b in builder.message.content] == texts


def test_a_partial_message_does_not_change_when_more_arrives() -> None:
    builder = MessageBuilder()
    builder.feed([Start(), TextStart(0), TextDelta(0, "a"), ToolCallStart(1, "x", "f")])
    partial = builder.message
    builder.feed([TextDelta(0, "b"), ToolCallDelta(1, '{"a": 1}'), ToolCallEnd(1)])
    assert partial.text == "a"
    assert partial.tool_calls == [ToolCallBlock("x", "f", {}, "", "truncated")]


def test_pieces_do_not_pile_up_over_a_long_answer() -> None:
    builder = MessageBuilder()
    builder.feed([Start(), TextStart(0)])
    for _ in range(50_000):
        builder.feed([TextDelta(0, "x")])
    # more than one: whoever joined them at every event would copy the whole answer each time
    assert 1 < len(builder._blocks[0].parts) <= 8192 + 1
    assert builder.message.text == "x" * 50_000

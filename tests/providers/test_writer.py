"""The events of a parser, and the blocks that the writer makes of them. Restarts: another file."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from fakes import broken_rules, types
from hypothesis import given
from hypothesis import strategies as st

import swink_core as swink
from swink_core import StopReason, TextBlock, ThinkingBlock, ToolCallBlock
from swink_core.providers import EventWriter, MalformedFrame, is_synthetic_id
from swink_core.streaming.builder import MessageBuilder
from swink_core.vocabulary import events as ev

SYNTHETIC = "synthetic"
"""Stands for any id that the core made up."""


def events_of(out: EventWriter, reason: StopReason = StopReason.STOP) -> list[Any]:
    """All events of an answer that ends here."""
    out.stop(reason)
    out.close()
    assert out.stop_reason is not None
    return [ev.Start(), *out.take(), ev.Done(out.stop_reason)]


def message_of(out: EventWriter, reason: StopReason = StopReason.STOP) -> swink.AssistantMessage:
    events = events_of(out, reason)
    assert broken_rules(events) == []
    builder = MessageBuilder()
    builder.feed(events)
    return builder.message


def calls_of(fragments: list[dict[str, Any]]) -> list[tuple[str, str, str, str]]:
    """The calls that fragments make, as id, name, argument text and state."""
    out = EventWriter("toy", "call_1")
    for fragment in fragments:
        out.tool_call(**fragment)
    return [
        (
            SYNTHETIC if is_synthetic_id(call.id) else call.id,
            call.name,
            call.raw_arguments or "",
            call.state,
        )
        for call in message_of(out).tool_calls
    ]


# -- tool calls: every way in which servers number, name and cut them ----------------------------


def said(
    key: Any = None, id: str | None = None, name: str | None = None, args: str | None = None
) -> dict[str, Any]:
    return {"key": key, "id": id, "name": name, "arguments": args}


PARIS = ("a", "weather", '{"city": "Paris"}', "complete")
NOON = ("b", "clock", '{"zone": "CET"}', "complete")
ROME = (SYNTHETIC, "weather", '{"city": "Rome"}', "complete")
WITHOUT_IDS = [(SYNTHETIC, *PARIS[1:]), (SYNTHETIC, *NOON[1:])]

# (name, fragments as they come, calls)
FRAGMENTS: list[tuple[str, list[dict[str, Any]], list[tuple[str, str, str, str]]]] = [
    (
        "an_index_each",
        [
            said(0, "a", "weather", ""),
            said(0, args='{"city": '),
            said(0, args='"Paris"}'),
            said(1, "b", "clock", ""),
            said(1, args='{"zone": '),
            said(1, args='"CET"}'),
        ],
        [PARIS, NOON],
    ),
    (
        "interleaved",
        [
            said(0, "a", "weather"),
            said(1, "b", "clock"),
            said(0, args='{"city": '),
            said(1, args='{"zone": '),
            said(1, args='"CET"}'),
            said(0, args='"Paris"}'),
        ],
        [PARIS, NOON],
    ),
    (
        "the_same_index_for_all",
        [
            said(0, "a", "weather"),
            said(0, args='{"city": "Paris"}'),
            said(0, "b", "clock"),
            said(0, args='{"zone": "CET"}'),
        ],
        [PARIS, NOON],
    ),
    (
        "no_index",
        [
            said(None, "a", "weather"),
            said(args='{"city": '),
            said(args='"Paris"}'),
            said(None, "b", "clock"),
            said(args='{"zone": "CET"}'),
        ],
        [PARIS, NOON],
    ),
    (
        "no_index_but_the_id_with_every_fragment_interleaved",
        [
            said(None, "a", "weather"),
            said(None, "b", "clock"),
            said(None, "a", args='{"city": '),
            said(None, "b", args='{"zone": "CET"}'),
            said(None, "a", args='"Paris"}'),
        ],
        [PARIS, NOON],
    ),
    (
        "the_id_outranks_an_index_that_drifts",
        [
            said(0, "a", "weather"),
            said(1, "a", args='{"city": '),
            said(2, "b", "clock"),
            said(3, "a", args='"Paris"}'),
            said(4, "b", args='{"zone": "CET"}'),
        ],
        [PARIS, NOON],
    ),
    (
        "arguments_under_an_index_that_drifted",
        [
            said(0, "a", "weather", ""),
            said(1, args='{"city": '),
            said(1, args='"Paris"}'),
        ],
        [PARIS],
    ),
    (
        "an_index_that_drifted_inside_a_text",
        [said(0, "a", "weather", '{"city": "Pa'), said(1, args='ris"}')],
        [PARIS],
    ),
    (
        "the_end_of_the_arguments_under_an_index_that_drifted",
        [
            said(0, "a", "weather", '{"city": '),
            said(1, args='"Paris"}'),
            said(2, "b", "clock", '{"zone": "CET"}'),
        ],
        [PARIS, NOON],
    ),
    (
        "the_end_of_a_list_and_of_the_arguments_under_an_index_that_drifted",
        [said(0, "a", "f", '{"x": ["1", '), said(1, args='"2"]}')],
        [("a", "f", '{"x": ["1", "2"]}', "complete")],
    ),
    (
        "indexes_that_skip",
        [said(3, "a", "weather", '{"city": "Paris"}'), said(7, "b", "clock", '{"zone": "CET"}')],
        [PARIS, NOON],
    ),
    (
        "no_ids",
        [
            said(0, None, "weather", '{"city": '),
            said(1, None, "clock", '{"zone": '),
            said(0, args='"Paris"}'),
            said(1, args='"CET"}'),
        ],
        WITHOUT_IDS,
    ),
    (
        "neither_index_nor_ids",
        [
            said(None, None, "weather", '{"city": '),
            said(args='"Paris"}'),
            said(None, None, "clock", '{"zone": "CET"}'),
        ],
        WITHOUT_IDS,
    ),
    (
        "neither_index_nor_ids_and_the_same_name_twice",
        [
            said(None, None, "weather", '{"city": "Paris"}'),
            said(None, None, "weather", '{"city": "Rome"}'),
        ],
        [
            (SYNTHETIC, "weather", '{"city": "Paris"}', "complete"),
            (SYNTHETIC, "weather", '{"city": "Rome"}', "complete"),
        ],
    ),
    (
        "a_fragment_without_anything_new",
        [said(0, "a", "weather", '{"city": '), said(0, "a", "", ""), said(0, args='"Paris"}')],
        [PARIS],
    ),
    (
        "empty_strings_for_what_was_said_before",
        [
            said(0, "a", "weather", ""),
            said(0, "", "", '{"city": '),
            said(0, "", "", '"Paris"}'),
        ],
        [PARIS],
    ),
    (
        "the_name_with_every_fragment",
        [said(0, "a", "weather", '{"city": '), said(0, None, "weather", '"Paris"}')],
        [PARIS],
    ),
    (
        "id_and_name_with_every_fragment",
        [said(0, "a", "weather", '{"city": '), said(0, "a", "weather", '"Paris"}')],
        [PARIS],
    ),
    (
        "an_id_one_fragment_late",
        [said(0, None, "weather"), said(0, "a", None, '{"city": "Paris"}')],
        [PARIS],
    ),
    (
        "an_id_and_the_name_again_one_fragment_late",
        [said(0, None, "weather"), said(0, "a", "weather", '{"city": "Paris"}')],
        [PARIS],
    ),
    (
        "an_id_too_late_to_wait_for",
        [
            said(0, None, "weather", '{"city"'),
            said(0, args=": "),
            said(0, "a", None, '"Pa'),
            said(None, "a", None, 'ris"}'),
        ],
        [(SYNTHETIC, *PARIS[1:])],
    ),
    (
        "a_name_after_the_id",
        [
            said(0, "a"),
            said(0, "a", ""),
            said(0, None, "weather"),
            said(0, args='{"city": "Paris"}'),
        ],
        [PARIS],
    ),
    (
        "a_name_after_the_arguments",
        [said(0, "a", None, '{"city": '), said(0, args='"Paris"}'), said(0, None, "weather")],
        [PARIS],
    ),
    (
        "another_id_under_the_same_index",
        [
            said(0, "a", "weather", '{"city": "Paris"}'),
            said(0, "b", None, '{"zone": "CET"}'),
            said(0, None, "clock"),
        ],
        [PARIS, NOON],
    ),
    (
        "another_name_under_the_same_index",
        [
            said(0, None, "weather", '{"city": "Paris"}'),
            said(0, None, "clock", '{"zone": "CET"}'),
        ],
        WITHOUT_IDS,
    ),
    (
        "another_name_under_another_index_and_the_same_id",
        [
            said(0, "a", "weather", '{"city": '),
            said(1, "a", "clock", '{"zone": "CET"'),
            said(0, "a", None, '"Paris"}'),
            said(1, "a", "clock", "}"),
        ],
        [PARIS, WITHOUT_IDS[1]],
    ),
    (
        "another_name_under_the_same_index_and_the_same_id",
        [
            said(0, "a", "weather", '{"city": "Paris"}'),
            said(0, "a", "clock", '{"zone": "CET"}'),
        ],
        [PARIS, WITHOUT_IDS[1]],
    ),
    (
        "whole_calls_with_the_same_id_and_name",
        [
            said(0, "a", "weather", '{"city": "Paris"}'),
            said(1, "a", "weather", '{"city": "Rome"}'),
        ],
        [PARIS, ROME],
    ),
    (
        "whole_calls_with_the_same_id_and_name_under_one_index",
        [
            said(0, "a", "weather", '{"city": "Paris"}'),
            said(0, "a", "weather", '{"city": "Rome"}'),
        ],
        [PARIS, ROME],
    ),
    (
        "whole_calls_with_the_same_id_and_name_without_an_index",
        [
            said(None, "a", "weather", '{"city": "Paris"}'),
            said(None, "a", "weather", '{"city": "Rome"}'),
        ],
        [PARIS, ROME],
    ),
    (
        "calls_with_the_same_id_and_name_in_pieces",
        [
            said(0, "a", "weather", '{"city": '),
            said(0, args='"Paris"}'),
            said(1, "a", "weather", ""),
            said(1, "a", "weather", '{"city": '),
            said(1, "a", "weather", '"Rome"}'),
        ],
        [PARIS, ROME],
    ),
    (
        "id_and_name_again_after_whole_arguments",
        [
            said(0, "a", "weather", '{"city": "Paris"}'),
            said(0, "a", "weather", ""),
            said(0, "a", "weather", "\n"),
            said(0, "a"),
            said(1, "a", None, ""),
        ],
        [(*PARIS[:2], PARIS[2] + "\n", "complete")],
    ),
    (
        "whole_calls_under_one_index",
        [
            said(0, "a", "weather", '{"city": "Paris"}'),
            said(0, "b", "clock", '{"zone": "CET"}'),
        ],
        [PARIS, NOON],
    ),
    ("no_arguments", [said(0, "a", "now")], [("a", "now", "", "complete")]),
    ("empty_arguments", [said(0, "a", "now", "")], [("a", "now", "", "complete")]),
    ("blank_arguments", [said(0, "a", "now", " ")], [("a", "now", " ", "complete")]),
    ("no_name", [said(0, "a", None, "{}")], [("a", "", "{}", "invalid")]),
    ("broken_arguments", [said(0, "a", "f", '{"x": ')], [("a", "f", '{"x": ', "invalid")]),
    ("arguments_that_are_no_object", [said(0, "a", "f", "[1]")], [("a", "f", "[1]", "invalid")]),
    (
        "a_fragment_that_says_nothing_at_all",
        [said(0, "a", "weather", '{"city": "Paris"}'), said(1)],
        [PARIS],
    ),
    (
        "fragments_that_complete_nothing_are_kept",
        [said(0, "a", "weather", '{"city": "Paris"}'), said(1, args='{"x"')],
        [PARIS, (SYNTHETIC, "", '{"x"', "invalid")],
    ),
]


@pytest.mark.parametrize(
    ("fragments", "calls"), [case[1:] for case in FRAGMENTS], ids=[case[0] for case in FRAGMENTS]
)
def test_fragments_of_tool_calls_find_their_call(
    fragments: list[dict[str, Any]], calls: list[tuple[str, str, str, str]]
) -> None:
    assert calls_of(fragments) == calls


JSON_OBJECTS = st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=5), max_size=3)
KEYING = st.sampled_from(["key", "key and id", "id"])


@st.composite
def interleavings(draw: st.DrawFn) -> tuple[list[Any], list[ToolCallBlock]]:
    """Calls cut into fragments, whose order within a call and whose beginnings are kept."""
    queues: list[list[dict[str, Any]]] = []
    expected: list[ToolCallBlock] = []
    keying = draw(KEYING)
    for number in range(draw(st.integers(1, 5))):
        arguments = draw(JSON_OBJECTS)
        text = json.dumps(arguments)
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=5)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        key = None if keying == "id" else number
        id = f"id{number}"
        later = None if keying == "key" else id
        name = draw(st.sampled_from(["f", "g"]))
        queues.append(
            [said(key, id, name, ""), *(said(key, later, None, piece) for piece in pieces)]
        )
        expected.append(ToolCallBlock(id, name, arguments, text))
    fragments = [queue.pop(0) for queue in queues]
    while any(queues):
        queue = draw(st.sampled_from([queue for queue in queues if queue]))
        fragments.append(queue.pop(0))
    return fragments, expected


@given(interleavings())
def test_any_interleaving_of_parallel_calls_gives_the_same_message(
    case: tuple[list[dict[str, Any]], list[ToolCallBlock]],
) -> None:
    fragments, expected = case
    out = EventWriter("toy", "1")
    for fragment in fragments:
        out.tool_call(**fragment)
    assert message_of(out).content == expected


def test_synthetic_ids_differ_within_an_answer_and_between_answers() -> None:
    ids = []
    for prefix in ("call_1", "call_2"):
        out = EventWriter("toy", prefix)
        for key in range(3):
            out.tool_call(key, name="f", arguments="{}")
        ids += [call.id for call in message_of(out).tool_calls]
    assert len(set(ids)) == 6
    assert all(map(is_synthetic_id, ids))


def test_a_call_is_announced_as_soon_as_its_name_and_id_are_known() -> None:
    out = EventWriter()
    out.tool_call(0, id="a", name="f")
    assert out.take() == [ev.ToolCallStart(0, "a", "f")]


def test_a_call_without_an_id_is_announced_with_its_second_fragment() -> None:
    out = EventWriter()
    out.tool_call(0, name="f", arguments="{")
    assert out.take() == []
    out.tool_call(0, arguments="}")
    assert types(out.take()) == ["tool_call_start", "tool_call_delta", "tool_call_delta"]


def test_a_call_with_a_name_comes_before_what_begins_after_it() -> None:
    out = EventWriter()
    out.tool_call(0, name="f", arguments="{}")
    out.text("Hi")
    assert types(out.take()) == ["tool_call_start", "tool_call_delta", "text_start", "text_delta"]


# -- everything that a parser may say, in any order ----------------------------------------------

_keys = st.none() | st.integers(0, 2)
_words = st.none() | st.sampled_from(["", "a", "b"])
_pieces = st.none() | st.sampled_from(["", "{}", "{", "}", '{"a": 1}', "[", "x"])
_data = st.none() | st.just({}) | st.just({"m": 1})

SAYINGS = st.one_of(
    st.tuples(
        st.just("text"),
        st.fixed_dictionaries({"delta": st.text(max_size=2), "key": _keys, "metadata": _data}),
    ),
    st.tuples(
        st.just("thinking"),
        st.fixed_dictionaries(
            {
                "delta": st.text(max_size=2),
                "key": _keys,
                "signature": _words,
                "redacted": st.booleans(),
                "metadata": _data,
            }
        ),
    ),
    st.tuples(
        st.just("tool_call"),
        st.fixed_dictionaries(
            {"key": _keys, "id": _words, "name": _words, "arguments": _pieces, "metadata": _data}
        ),
    ),
    st.tuples(
        st.just("extension"),
        st.fixed_dictionaries({"kind": st.just("k"), "data": st.just(1), "metadata": _data}),
    ),
    st.tuples(st.just("end"), st.fixed_dictionaries({"key": _keys})),
    st.tuples(st.just("notice"), st.fixed_dictionaries({"code": st.just("c")})),
    st.tuples(st.just("restart"), st.fixed_dictionaries({"why": st.just("w")})),
)


@given(st.lists(SAYINGS, max_size=25))
def test_events_follow_the_grammar_for_any_sequence_of_writer_calls(
    sayings: list[tuple[str, dict[str, Any]]],
) -> None:
    out = EventWriter("toy", "1", "toy/large")
    for what, how in sayings:
        getattr(out, what)(**how)
    assert broken_rules(events_of(out)) == []


@given(st.lists(SAYINGS.filter(lambda saying: saying[0] != "restart"), max_size=25))
def test_no_reported_content_is_lost(sayings: list[tuple[str, dict[str, Any]]]) -> None:
    out = EventWriter("toy", "1")
    for what, how in sayings:
        getattr(out, what)(**how)
    message = message_of(out)

    def all_said(what: str, part: str) -> list[str]:
        return sorted("".join(how[part] or "" for kind, how in sayings if kind == what))

    raw = "".join(call.raw_arguments or "" for call in message.tool_calls)
    assert sorted(message.text) == all_said("text", "delta")
    assert sorted(message.thinking) == all_said("thinking", "delta")
    assert sorted(raw) == all_said("tool_call", "arguments")


# -- text, thinking, extensions ------------------------------------------------------------------


def test_a_reason_of_ones_own_is_refused_with_those_that_there_are() -> None:
    invented: Any = "finished"
    out = EventWriter()
    with pytest.raises(swink.PluginError, match=r"'finished' is not a StopReason; .* stop, length"):
        out.stop(invented)
    assert out.stop_reason is None


# (name, a call of the writer with a value of another type, part of the message)
MISTYPED: list[tuple[str, Callable[[EventWriter], None], str]] = [
    ("text", lambda out: out.text(b"lo"), '(not "bytes") to str'),  # type: ignore[arg-type]  # on purpose
    ("thinking", lambda out: out.thinking(b"lo"), '(not "bytes") to str'),  # type: ignore[arg-type]  # on purpose
    ("a_name", lambda out: out.tool_call(0, "a", b"f"), '(not "bytes") to str'),  # type: ignore[arg-type]  # on purpose
    (
        "arguments",
        lambda out: out.tool_call(0, "a", "f", {"q": 1}),  # type: ignore[arg-type]  # on purpose
        "the arguments of a tool call are of type dict, not JSON text; encode them as JSON",
    ),
    (
        "later_arguments",
        lambda out: (out.tool_call(0, "a", "f"), out.tool_call(0, arguments={"q": 1})),  # type: ignore[arg-type,func-returns-value]  # on purpose
        '(not "dict") to str',
    ),
]


@pytest.mark.parametrize(
    ("say", "message"), [row[1:] for row in MISTYPED], ids=[row[0] for row in MISTYPED]
)
def test_content_of_another_type_is_refused_before_it_becomes_an_event(
    say: Callable[[EventWriter], None], message: str
) -> None:
    out = EventWriter()
    out.text("Hel")
    with pytest.raises((TypeError, swink.PluginError)) as caught:
        say(out)
    assert message in str(caught.value)
    out.close()
    deltas = [event.delta for event in out.take() if hasattr(event, "delta")]
    assert deltas == ["Hel"]


def test_text_and_thinking_take_turns_in_blocks() -> None:
    out = EventWriter()
    out.thinking("Hm")
    out.thinking(", so")
    out.text("Hel")
    out.text("lo")
    out.thinking("?")
    assert message_of(out).content == [
        ThinkingBlock("Hm, so"),
        TextBlock("Hello"),
        ThinkingBlock("?"),
    ]


def test_empty_text_opens_no_block() -> None:
    out = EventWriter()
    out.text("")
    out.thinking("")
    assert message_of(out).content == []
    assert not out.has_answer


def test_another_key_is_another_block() -> None:
    out = EventWriter()
    out.text("a", key=0)
    out.text("b", key=1)
    assert message_of(out).content == [TextBlock("a"), TextBlock("b")]


def test_signature_and_metadata_belong_to_their_block() -> None:
    out = EventWriter()
    out.thinking("Hm", signature="s1", metadata={"a": 1})
    out.thinking("", metadata={"b": 2})
    out.text("x", metadata={"c": 3})
    out.thinking("", signature="s2", redacted=True)
    assert message_of(out).content == [
        ThinkingBlock("Hm", "s1", False, {"a": 1, "b": 2}),
        TextBlock("x", {"c": 3}),
        ThinkingBlock("", "s2", True),
    ]


def test_metadata_alone_opens_a_block_so_that_it_goes_back() -> None:
    out = EventWriter()
    out.text("", metadata={"signature": "s"})
    assert message_of(out).content == [TextBlock("", {"signature": "s"})]


def test_metadata_of_a_call_is_merged_and_comes_with_its_end() -> None:
    out = EventWriter()
    out.tool_call(0, id="a", name="f", metadata={"a": 1})
    out.tool_call(0, arguments="{}", metadata={"b": 2})
    assert message_of(out).content == [ToolCallBlock("a", "f", {}, "{}", metadata={"a": 1, "b": 2})]


def test_data_from_the_parser_is_not_changed_later() -> None:
    metadata = {"a": 1}
    out = EventWriter()
    out.text("x", metadata=metadata)
    out.text("", metadata={"b": 2})
    out.tool_call(0, id="a", name="f", metadata=metadata)
    out.tool_call(0, metadata={"b": 2})
    message_of(out)
    assert metadata == {"a": 1}


def test_a_block_that_was_ended_is_not_continued() -> None:
    out = EventWriter()
    out.text("a", key=0)
    out.end(0)
    out.text("b", key=0)
    out.end(0)
    out.end(0)
    out.end("unknown")
    assert message_of(out).content == [TextBlock("a"), TextBlock("b")]


def test_a_call_that_was_ended_stays_so_while_others_go_on() -> None:
    out = EventWriter()
    out.tool_call(0, id="a", name="f", arguments="{}")
    out.tool_call(1, id="b", name="g", arguments="{")
    out.end(0)
    out.tool_call(1, arguments="}")
    assert types(events_of(out))[-4:] == [
        "tool_call_end",
        "tool_call_delta",
        "tool_call_end",
        "done",
    ]


def test_a_fragment_under_another_key_completes_a_call_once() -> None:
    out = EventWriter("toy", "call_1")
    out.tool_call(0, "a", "weather", '{"city": ')
    out.tool_call(1, arguments='"Paris"}')
    out.end(1)
    [call] = message_of(out).tool_calls
    assert (call.raw_arguments, call.state) == ('{"city": "Paris"}', "complete")


def test_an_extension_is_a_whole_block_of_the_provider() -> None:
    out = EventWriter("toy")
    out.text("a")
    out.extension("search", {"q": 1}, {"m": 2})
    out.text("b")
    assert message_of(out).content == [
        TextBlock("a"),
        swink.ExtensionBlock("toy", "search", {"q": 1}, {"m": 2}),
        TextBlock("b"),
    ]


def test_a_call_with_a_name_is_no_rest_of_another() -> None:
    out = EventWriter()
    out.tool_call(0, id="x", name="f", arguments="{")
    out.tool_call(1, name="g", arguments="}")
    out.end(1)
    calls = [(call.name, call.raw_arguments) for call in message_of(out).tool_calls]
    assert calls == [("f", "{"), ("g", "}")]


def test_text_that_goes_on_beside_a_call_is_a_block_of_its_own() -> None:
    out = EventWriter()
    out.text("a")
    out.tool_call(0, id="x", name="f", arguments="{")
    out.text("b")
    out.tool_call(0, arguments="}")
    assert message_of(out).content == [
        TextBlock("a"),
        ToolCallBlock("x", "f", {}, "{}"),
        TextBlock("b"),
    ]


# -- how it ended, and what it took --------------------------------------------------------------

# (reason as the provider gave it, whether there was a call, reason)
REASONS = [
    (StopReason.STOP, False, StopReason.STOP),
    (StopReason.STOP, True, StopReason.TOOL_USE),
    (StopReason.TOOL_USE, True, StopReason.TOOL_USE),
    (StopReason.LENGTH, True, StopReason.LENGTH),
    (StopReason.CONTENT_FILTER, True, StopReason.CONTENT_FILTER),
    (StopReason.PAUSE, True, StopReason.PAUSE),
]


@pytest.mark.parametrize(("given_reason", "has_call", "reason"), REASONS)
def test_a_plain_stop_after_a_call_is_a_stop_for_tool_use(
    given_reason: StopReason, has_call: bool, reason: StopReason
) -> None:
    out = EventWriter()
    if has_call:
        out.tool_call(0, id="a", name="f", arguments="{}")
    out.stop(given_reason)
    assert out.stop_reason is reason


# (name, what is said, usage)
USAGES: list[tuple[str, list[dict[str, Any]], swink.Usage | None]] = [
    ("nothing", [], None),
    ("that_there_is_some", [{}], swink.Usage(reported=True)),
    ("zero_is_not_unknown", [{"input": 0}], swink.Usage(input=0, reported=True)),
    (
        "the_last_known_value_wins",
        [{"input": 5, "output": 1}, {"output": 3}, {"output": None}],
        swink.Usage(input=5, output=3, total=8, reported=True),
    ),
    (
        "the_total_is_the_providers_own",
        [{"input": 5, "output": 3, "total": 9}],
        swink.Usage(input=5, output=3, total=9, reported=True),
    ),
    ("no_total_of_one_part", [{"output": 3}], swink.Usage(output=3, reported=True)),
    (
        "numbers_may_come_as_floats",
        [{"input": 5.0}],
        swink.Usage(input=5, reported=True),
    ),
    (
        "extra_figures_are_merged",
        [{"extra": {"a": 1}}, {"extra": {"b": 2}}],
        swink.Usage(extra={"a": 1, "b": 2}, reported=True),
    ),
]


@pytest.mark.parametrize(
    ("sayings", "usage"), [case[1:] for case in USAGES], ids=[case[0] for case in USAGES]
)
def test_usage_is_as_reported(sayings: list[dict[str, Any]], usage: swink.Usage | None) -> None:
    out = EventWriter()
    for saying in sayings:
        out.usage(**saying)
    assert (out.usage_seen and out.usage_seen.added_up()) == usage


@pytest.mark.parametrize("count", [-1, 10**13, 1e300, float("inf"), float("-inf"), float("nan")])
def test_an_invalid_token_count_is_ignored(count: Any) -> None:
    out = EventWriter()
    out.usage(input=3, output=count)
    assert out.usage_seen
    assert out.usage_seen.added_up() == swink.Usage(input=3, reported=True)
    assert [event.code for event in out.take() if isinstance(event, swink.Notice)] == ["usage"]


INVALID_COSTS = [-1.0, float("nan"), float("inf"), "free", {"usd": 1}, [0.1]]


@pytest.mark.parametrize("cost", INVALID_COSTS)
def test_an_invalid_cost_is_ignored(cost: Any) -> None:
    out = EventWriter()
    out.usage(3, 4, cost=cost)
    assert out.cost is None
    assert [event.code for event in out.take() if isinstance(event, swink.Notice)] == ["usage"]


@pytest.mark.parametrize("cost", [0.25, "0.25", Decimal("0.25")])
def test_a_cost_becomes_a_float(cost: Any) -> None:
    out = EventWriter()
    out.usage(cost=cost)
    assert (out.cost, type(out.cost)) == (0.25, float)


def test_facts_of_the_response_are_kept_once_they_are_known() -> None:
    out = EventWriter()
    out.response("r1")
    out.response(None, "large-2")
    out.response("", "", {"tier": "auto", "prompt": 1})
    out.response(metadata={"tier": "flex"})
    out.usage(cost=0.5)
    out.usage()
    assert (out.response_id, out.model, out.cost) == ("r1", "large-2", 0.5)
    assert out.metadata == {"tier": "flex", "prompt": 1}


def test_a_failure_ends_the_reading() -> None:
    out = EventWriter()
    failure = swink.Failure("streaming", code="busy")
    out.fail(failure)
    assert (out.failure, out.finished, out.stop_reason) == (failure, True, None)


def test_events_are_taken_once() -> None:
    out = EventWriter()
    out.text("a")
    first = out.take()
    assert out.take() == []
    out.text("b")
    assert types(first + out.take()) == ["text_start", "text_delta", "text_delta"]


@pytest.mark.parametrize("say", [EventWriter.text, EventWriter.thinking])
def test_keys_that_are_equal_are_the_same_key(say: Any) -> None:
    out = EventWriter("toy", "1")
    for number in (1000, 1000):
        say(out, "a", key=("block", int(str(number))))
    [block] = message_of(out).content
    assert (getattr(block, "text", None) or getattr(block, "thinking", None)) == "aa"


# -- JSON that is no frame ------------------------------------------------------------------------


def test_json_that_is_not_utf_8_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(UnicodeDecodeError):
        EventWriter().decode_json(b'{"a": "\xff"}', lambda text: {"a": "read"})
    assert EventWriter().decode_json('{"a": "\u00fc"}'.encode(), json.loads) == {"a": "\u00fc"}


def test_half_a_character_in_json_is_replaced_and_told() -> None:
    out = EventWriter()
    decoded = out.decode_json(b'{"a": "x\\ud83e"}', msgspec.json.decode)
    assert decoded == {"a": "x\N{REPLACEMENT CHARACTER}"}
    [notice] = out.take()
    assert isinstance(notice, swink.Notice)
    assert notice.code == "lone_surrogate"
    assert "replaced" in notice.detail


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b'{"a": ', msgspec.DecodeError),
        (b'{"a": ' + b"[" * 128 + b" " * 128 + b"]" * 128 + b"}", MalformedFrame),
    ],
)
def test_json_that_is_broken_or_nested_too_deep_is_refused(
    text: bytes, error: type[Exception]
) -> None:
    out = EventWriter()
    with pytest.raises(error):
        out.decode_json(text, msgspec.json.decode)
    assert out.take() == []

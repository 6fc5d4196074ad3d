"""The cost of an answer: blocks are bounded, stored data is counted, work is linear."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fakes import broken_rules

from swink_core import StopReason, StreamErrorKind
from swink_core.providers import EventWriter
from swink_core.streaming.builder import MessageBuilder
from swink_core.vocabulary import events as ev
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, cpu_seconds

# -- blocks --------------------------------------------------------------------------------------

BOUND = 4_096
"""Blocks of an answer, as the reference says."""

# (name, what begins the n-th block)
BLOCKS: list[tuple[str, Callable[[EventWriter, int], None]]] = [
    ("text", lambda out, n: out.text("a", key=n)),
    ("thinking", lambda out, n: out.thinking("a", key=n)),
    ("tool_calls", lambda out, n: out.tool_call(n, id=f"c{n}", name="f")),
    ("calls_without_a_name", lambda out, n: out.tool_call(n, id=f"c{n}")),
    ("calls_without_an_id", lambda out, n: out.tool_call(n, name="f")),
    ("extensions", lambda out, n: out.extension("search", {})),
]
NAMED = [pytest.param(case[1], id=case[0]) for case in BLOCKS]


@pytest.mark.parametrize("begin", NAMED)
def test_an_answer_may_have_as_many_blocks_as_the_bound(
    begin: Callable[[EventWriter, int], None],
) -> None:
    out = EventWriter("toy", "1")
    for number in range(BOUND):
        begin(out, number)
    assert (out.failure, out.finished) == (None, False)


@pytest.mark.parametrize("begin", NAMED)
def test_one_block_more_fails_the_answer_and_nothing_after_it_is_taken_in(
    begin: Callable[[EventWriter, int], None],
) -> None:
    out = EventWriter("toy", "1")
    for number in range(BOUND + 20):
        begin(out, number)
    out.text("and on it goes")
    assert out.finished
    assert out.failure is not None
    assert (out.failure.kind, out.failure.code) == (StreamErrorKind.OUTPUT_TOO_LARGE, "blocks")
    assert out.failure.phase == "streaming"
    assert out.failure.message == "the answer has more than 4096 blocks"
    out.close()
    events: list[Any] = [ev.Start(), *out.take()]
    out.text("still")
    out.close()
    assert out.take() == []
    assert broken_rules([*events, ev.Done(StopReason.STOP)]) == []
    builder = MessageBuilder()
    builder.feed(events)
    assert len(builder.message.content) == BOUND


def test_a_fragment_that_completes_a_call_under_another_key_is_no_block_of_its_own() -> None:
    out = EventWriter("toy", "1")
    for number in range(3):
        out.tool_call(number, id=f"c{number}", name="f", arguments="{")
        out.tool_call(f"{number} drifted", arguments="}")
        out.end(f"{number} drifted")
        out.end(number)
    for number in range(3, BOUND):
        out.text("a", key=number)
    assert out.failure is None
    out.text("a", key=BOUND)
    assert out.failure is not None


def test_a_block_too_many_does_not_go_on_after_the_events_are_taken() -> None:
    out = EventWriter("toy", "1")
    for number in range(BOUND + 1):
        out.text("a", key=number)
    assert sum(isinstance(event, ev.TextDelta) for event in out.take()) == BOUND
    out.text("b", key=BOUND)
    assert out.take() == []


def test_an_answer_that_begins_anew_has_the_whole_bound_again() -> None:
    out = EventWriter("toy", "1", "toy/large")
    for _ in range(2):
        for number in range(BOUND):
            out.text("a", key=number)
        out.restart("anew")
    assert out.failure is None


# -- what is kept --------------------------------------------------------------------------------


def _each(say: Callable[[Any], None], *words: Any) -> None:
    for word in words:
        say(word)


# (name, what is said, characters)
KEPT: list[tuple[str, Callable[[EventWriter], Any], int]] = [
    ("nothing", lambda out: None, 0),
    ("text", lambda out: out.text("hello"), 5),
    ("thinking", lambda out: out.thinking("hm", signature="sig"), 5),
    (
        "a_signature_replaces_the_one_before",
        lambda out: _each(lambda s: out.thinking("", signature=s), "long", "b"),
        1,
    ),
    ("a_call", lambda out: out.tool_call(0, "id", "name", "{}"), 8),
    ("a_call_that_is_not_announced", lambda out: out.tool_call(0, arguments="{}"), 2),
    (
        "ids_and_names_that_come_again",
        lambda out: _each(lambda s: out.tool_call(0, "id", "name", s), "{", "{", "{"),
        9,
    ),
    ("metadata", lambda out: out.text("", metadata={"a": "12345"}), 8),
    (
        "metadata_replaces_what_it_names",
        lambda out: _each(lambda s: out.text("", metadata={"a": s}), "1" * 90, "12345"),
        8,
    ),
    ("metadata_of_thinking", lambda out: out.thinking("", metadata={"a": "12345"}), 8),
    ("metadata_of_a_call", lambda out: out.tool_call(0, metadata={"a": "12345"}), 8),
    ("figures_of_usage", lambda out: out.usage(extra={"a": "12345"}), 8),
    (
        "figures_that_come_with_every_frame",
        lambda out: _each(lambda s: out.usage(extra={"a": s}), "12345", "12345"),
        8,
    ),
    (
        "facts_that_come_with_every_frame",
        lambda out: _each(lambda s: out.response(metadata={"a": s}), "12345", "12345"),
        8,
    ),
    ("an_extension", lambda out: out.extension("kind", {"d": "12345"}), 24),
    ("what_a_parser_stores", lambda out: _each(out.hold, 3, 4), 7),
    ("surrogates_and_what_is_no_json", lambda out: out.text("", metadata={"a": "\ud800"}), 9),
]


@pytest.mark.parametrize(
    ("say", "size"), [case[1:] for case in KEPT], ids=[case[0] for case in KEPT]
)
def test_all_that_is_kept_of_an_answer_is_counted(
    say: Callable[[EventWriter], Any], size: int
) -> None:
    out = EventWriter("toy", "1")
    say(out)
    assert out.kept == size
    out.close()
    assert out.kept == size


def test_discarded_blocks_are_not_kept() -> None:
    out = EventWriter("toy", "1", "toy/large")
    out.text("hello", metadata={"a": 1})
    size = out.kept
    out.restart("anew")
    assert (out.kept, out.discarded) == (0, size)
    out.text("ho")
    assert out.kept == 2
    out.restart("once more")
    assert (out.kept, out.discarded) == (0, size + 2)


# -- work ----------------------------------------------------------------------------------------


def _calls(size: int) -> Iterator[dict[str, Any]]:
    return ({"key": n, "id": f"c{n}", "name": "f"} for n in range(size // 60))


def _nameless(size: int) -> Iterator[dict[str, Any]]:
    return ({"key": n, "id": f"c{n}", "arguments": "{"} for n in range(size // 60))


def _names_again(before: str, piece: str) -> Callable[[int], Iterator[dict[str, Any]]]:
    def fragments(size: int) -> Iterator[dict[str, Any]]:
        yield {"key": 0, "id": "c", "name": "f", "arguments": before}
        for _ in range(size // (len(piece) + 20)):
            yield {"key": 0, "name": "f", "arguments": piece}

    return fragments


def _strays(size: int) -> Iterator[dict[str, Any]]:
    for number in range(size // 120):
        yield {"key": number, "id": f"c{number}", "name": "f", "arguments": '{"a":'}
    for number in range(size // 120):
        yield {"key": -1 - number, "arguments": "]" * 20}


def _one_long_call_and_strays(size: int) -> Iterator[dict[str, Any]]:
    yield {"key": 0, "id": "c", "name": "f", "arguments": '{"a": "' + "b" * (size // 2)}
    for number in range(size // 100):
        yield {"key": -1 - number, "arguments": "}" * 20}


# (name, fragments of about so many characters on the wire)
FRAGMENTS: list[tuple[str, Callable[[int], Iterator[dict[str, Any]]]]] = [
    ("many_calls", _calls),
    ("many_calls_without_a_name", _nameless),
    ("names_again_inside_a_string", _names_again('{"a":"', "}" * 20)),
    ("names_again_in_an_open_list", _names_again('{"a":[', "{}" * 10)),
    ("names_again_after_what_is_no_object", _names_again("{?}", " }")),
    ("names_again_with_escapes", _names_again('{"a":"', "\\")),
    ("strays_beside_many_calls", _strays),
    ("strays_beside_a_long_call", _one_long_call_and_strays),
]


@pytest.mark.parametrize(
    "fragments", [case[1] for case in FRAGMENTS], ids=[case[0] for case in FRAGMENTS]
)
def test_no_fragments_of_tool_calls_hold_the_thread(
    fragments: Callable[[int], Iterator[dict[str, Any]]],
) -> None:
    def work() -> None:
        out = EventWriter("toy", "1")
        for fragment in said:
            out.tool_call(**fragment)
        out.stop(StopReason.STOP)
        out.close()

    said = list(fragments(HOSTILE_SIZE))
    assert cpu_seconds(work) < FREEZE


def test_a_growing_list_of_citations_is_measured_once() -> None:
    def work() -> EventWriter:
        out = EventWriter("toy", "1")
        known: list[Any] = []
        for citation in citations:
            known.append(citation)
            out.text("", metadata={"citations": known})
        return out

    citations = [{"url": f"https://example.org/{n}"} for n in range(HOSTILE_SIZE // 40)]
    assert cpu_seconds(work) < FREEZE
    out = work()
    assert out.kept == pytest.approx(HOSTILE_SIZE, rel=0.3)
    out.close()
    assert out.take()[-1] == ev.TextEnd(0, {"citations": citations})


# (name, arguments in pieces, whether the same name after them begins another call)
WHOLE: list[tuple[str, list[str], bool]] = [
    ("an_object", ['{"a": 1}'], True),
    ("an_object_and_blanks", ['{"a": 1}', " \n"], True),
    ("an_object_in_pieces", ['{"a"', ': {"b": [1', "]}", "}"], True),
    ("a_brace_in_a_string", ['{"a": "}'], False),
    ("a_brace_after_a_string", ['{"a": "}"', "}"], True),
    ("a_string_in_pieces", ['{"a": "b', "c", 'd"', "}"], True),
    ("an_escape_cut_in_two", ['{"a": "\\', '"}', '"}'], True),
    ("an_escaped_quote_that_ends_nothing", ['{"a": "\\', '"}'], False),
    ("an_escaped_backslash", ['{"a": "\\\\"}'], True),
    ("a_list", ["[1]"], False),
    ("an_object_too_many", ['{"a": 1}{"b": 2}'], False),
    ("what_only_looks_like_an_object", ["{a}"], False),
    ("nothing", [""], False),
    ("blanks", [" "], False),
]


@pytest.mark.parametrize(
    ("pieces", "another"), [case[1:] for case in WHOLE], ids=[case[0] for case in WHOLE]
)
def test_the_same_name_begins_another_call_only_after_whole_arguments(
    pieces: list[str], another: bool
) -> None:
    out = EventWriter("toy", "1")
    for piece in pieces:
        out.tool_call(0, name="f", arguments=piece)
    out.tool_call(0, name="f", arguments="{}")
    out.close()
    starts = [event for event in out.take() if isinstance(event, ev.ToolCallStart)]
    assert len(starts) == 1 + another


def test_an_object_that_goes_on_after_its_end_was_not_whole() -> None:
    out = EventWriter("toy", "1")
    out.tool_call(0, id="a", name="f", arguments='{"a": 1}')
    out.tool_call(0, id="a", name="f", arguments="x")
    out.tool_call(0, name="f", arguments="{}")
    out.close()
    assert sum(isinstance(event, ev.ToolCallStart) for event in out.take()) == 1

"""From bytes to events: completion, cuts, malformed frames, limits, draining."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from fakes import HELLO, Toy, ToyParser, broken_rules, frame, types

import swink_core as swink
from swink_core import Done, Error, Failure, Notice, ProviderFailure, StopReason
from swink_core import StreamErrorKind as Kind
from swink_core.framing.frame import FrameError
from swink_core.providers import DEFAULT_FRAME_LIMIT, EventSource, EventWriter, SSEDecoder
from swink_core.vocabulary.depth import MAX_DEPTH
from swink_testing.calls import call_of
from swink_testing.chunking import byte_by_byte, every_cut
from swink_testing.driver import fold

BAD = b"data: {broken\n\n"
CUT = ProviderFailure(Failure("streaming", kind=Kind.NETWORK, code="connection", message="reset"))


async def chunks_of(*pieces: Any) -> AsyncIterator[bytes]:
    for piece in pieces:
        if isinstance(piece, BaseException):
            raise piece
        yield piece


TOY = Toy("toy")


def source_of(*pieces: Any, **given: Any) -> EventSource:
    limit = given.pop("limit", DEFAULT_FRAME_LIMIT)
    context = {"context": given.pop("context")} if "context" in given else {}
    call = call_of(TOY, "large", taps=given.pop("taps", []), **context)
    return EventSource(call, chunks_of(*pieces), SSEDecoder(limit), ToyParser(), **given)


async def events_of(*pieces: Any, **given: Any) -> list[Any]:
    events = [event async for event in source_of(*pieces, **given)]
    assert broken_rules(events) == []
    return events


STOP = frame(stop="stop")
END = frame(stop="stop", finish=True)

# (name, input, kind of the failure; None: done)
ENDINGS: list[tuple[str, list[Any], Kind | None]] = [
    ("finished", HELLO, None),
    ("finished_and_more_follows", [*HELLO, BAD, BAD], None),
    ("completed_then_end_of_input", [frame(text="a"), STOP], None),
    ("completed_then_the_connection_fails", [frame(text="a"), STOP, CUT], None),
    ("completed_and_cut_in_what_follows", [frame(text="a"), STOP, b"data: {"], None),
    ("completed_without_the_last_blank_line", [frame(text="a"), STOP[:-1]], None),
    ("completed_without_any_line_end", [frame(text="a"), STOP[:-2]], None),
    ("cut_inside_the_completing_frame", [frame(text="a"), STOP[:-4]], Kind.NETWORK),
    ("not_completed", [frame(text="a")], Kind.NETWORK),
    ("not_completed_after_usage", [frame(text="a"), frame(usage={"output": 1})], Kind.NETWORK),
    ("nothing", [], Kind.NETWORK),
    ("only_comments", [b": ping\n\n"], Kind.NETWORK),
    ("the_connection_fails_first", [CUT], Kind.NETWORK),
    ("the_connection_fails_later", [frame(text="a"), CUT], Kind.NETWORK),
    ("completed_without_an_answer", [END], Kind.EMPTY_RESPONSE),
    ("thinking_is_no_answer", [frame(thinking="Hm"), END], Kind.EMPTY_RESPONSE),
    ("an_extension_is_an_answer", [frame(extension={"a": 1}), END], None),
    ("a_call_is_an_answer", [frame(call={"key": 0, "id": "a", "name": "f"}), END], None),
    ("a_stop_sequence_is_an_answer", [frame(facts={"stop_sequence": "END"}), END], None),
    ("other_facts_are_no_answer", [frame(facts={"tier": "auto"}), END], Kind.EMPTY_RESPONSE),
    ("no_answer_within_the_length_limit", [frame(stop="length", finish=True)], None),
    ("a_filtered_answer_may_be_empty", [frame(stop="content_filter", finish=True)], None),
    ("a_pause_may_be_empty", [frame(stop="pause", finish=True)], None),
    ("the_providers_error", [frame(text="a"), frame(error={"code": "busy"})], Kind.OVERLOADED),
    ("an_unknown_error", [frame(error={"code": "new"})], Kind.UNKNOWN),
    ("an_error_after_the_stop", [frame(text="a"), STOP, frame(error={"code": "busy"})],
     Kind.OVERLOADED),
    ("a_callers_mistake", [swink.MediaError("a.png: gone")], Kind.INVALID_REQUEST),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "kind"), [case[1:] for case in ENDINGS], ids=[case[0] for case in ENDINGS]
)
async def test_a_stream_is_done_only_if_its_provider_said_so(
    pieces: list[Any], kind: Kind | None
) -> None:
    last = (await events_of(*pieces))[-1]
    assert isinstance(last, Done) is (kind is None)
    assert getattr(last, "error_kind", None) is kind


RESULTS = [swink.ToolResultMessage("c1", "f", "done")]
LATER = [*RESULTS, swink.SystemMessage("Go on.")]

# (name, the last messages, stop reason, whether an empty answer is complete)
EMPTY: list[tuple[str, list[Any], str, bool]] = [
    ("after_results", RESULTS, "stop", True),
    ("after_results_and_an_instruction", LATER, "stop", True),
    ("after_results_with_a_call_announced", RESULTS, "tool_use", False),
    ("after_a_question", [swink.UserMessage("Hi")], "stop", False),
    ("after_nothing", [], "stop", False),
]


@pytest.mark.parametrize(
    ("messages", "stop", "complete"), [case[1:] for case in EMPTY], ids=[case[0] for case in EMPTY]
)
async def test_an_empty_answer_is_complete_only_after_tool_results(
    messages: list[Any], stop: str, complete: bool
) -> None:
    source = source_of(frame(stop=stop, finish=True), context=swink.Context(messages))
    last = [event async for event in source][-1]
    assert isinstance(last, Done) is complete
    assert getattr(last, "error_kind", None) is (None if complete else Kind.EMPTY_RESPONSE)


@pytest.mark.parametrize(("pieces", "codes"), [([STOP], ["cut_frame"]), ([], [])])
async def test_a_frame_that_is_cut_is_a_notice_only_after_the_answer(
    pieces: list[bytes], codes: list[str]
) -> None:
    events = await events_of(frame(text="a"), *pieces, b'data: {"usage": {"inp')
    assert [event.code for event in events if isinstance(event, Notice)] == codes


async def test_what_follows_the_end_in_the_same_read_is_not_parsed() -> None:
    rest = [frame(text="more"), BAD, b"datum: x\n\n", frame(text="x" * 200)]
    read = b"".join([*HELLO, *rest])
    events = await events_of(read, limit=100)
    assert fold(events).text == "Hello"
    assert types(events)[-2:] == ["text_end", "done"]
    assert "notice" not in types(events)


# (name, input, phase of the failure)
PHASES: list[tuple[str, list[Any], str]] = [
    ("before_any_byte", [ProviderFailure(Failure("connect", 503))], "connect"),
    ("in_the_middle", [frame(text="a"), CUT], "streaming"),
    ("the_providers_error", [frame(error={"code": "busy"})], "streaming"),
    ("too_many_malformed_frames", [BAD] * 4, "streaming"),
    ("at_the_end", [frame(text="a")], "finalize"),
    ("an_empty_answer", [END], "finalize"),
]


@pytest.mark.parametrize(
    ("pieces", "phase"), [case[1:] for case in PHASES], ids=[case[0] for case in PHASES]
)
async def test_a_failure_says_how_far_the_attempt_had_come(pieces: list[Any], phase: str) -> None:
    last = (await events_of(*pieces))[-1]
    assert isinstance(last, Error)
    assert last.phase == phase


WHOLE = b"".join(
    [
        frame(id="r1"),
        frame(thinking="Hm"),
        frame(text="né🦊e"),
        frame(call={"key": 0, "id": "a", "name": "f", "arguments": '{"x": "ü"}'}),
        frame(usage={"input": 3, "output": 2}),
        frame(stop="stop", finish=True),
    ]
)


async def test_however_the_input_is_cut_the_events_are_the_same() -> None:
    whole = await events_of(WHOLE)
    assert types(whole)[-1] == "done"
    assert await events_of(*byte_by_byte(WHOLE)) == whole
    for pieces in every_cut(WHOLE):
        assert await events_of(*pieces) == whole


@pytest.mark.parametrize(
    ("pieces", "cost", "reads"),
    [
        ([frame(text="a"), b"", frame(usage={"output": 1}), CUT], None, 2),
        ([frame(text="a"), frame(usage={"output": 1, "cost": 0.5}), CUT], 0.5, 2),
        ([frame(text="a"), frame(usage={"cost": 0.0}), END], 0.0, 3),
        ([frame(text="a") + END], None, 1),
        ([], None, 0),
    ],
)
async def test_an_attempt_has_the_reported_cost_and_the_number_of_its_reads(
    pieces: list[Any], cost: float | None, reads: int
) -> None:
    call = call_of(TOY, "large")
    source = EventSource(call, chunks_of(*pieces), SSEDecoder(), ToyParser())
    assert [event async for event in source]
    assert (call.attempt.reported_cost, call.attempt.reads) == (cost, reads)


async def test_an_unknown_field_is_reported_before_the_frame_that_follows_it() -> None:
    events = await events_of(frame(text="a") + b"dota: x\n" + frame(text="b"), *HELLO[-2:])
    assert [(event.type, getattr(event, "code", None)) for event in events[:5]] == [
        ("start", None), ("text_start", None), ("text_delta", None), ("notice", "unknown_field"),
        ("text_delta", None),
    ]  # fmt: skip
    assert "unknown field name 'dota'" in events[3].detail


async def test_truncated_anywhere_before_its_end_a_stream_is_no_success() -> None:
    completing = WHOLE.index(b'{"stop"') + len(b'{"stop": "stop", "finish": true}')
    for length in range(len(WHOLE)):
        last = (await events_of(WHOLE[:length]))[-1]
        assert isinstance(last, Done) is (length >= completing), WHOLE[:length]


async def test_one_read_makes_one_batch_and_a_read_without_events_an_empty_one() -> None:
    source = source_of(b": ping\n\n", HELLO[1] + HELLO[2], HELLO[-1])
    assert [types(batch) async for batch in source.batches()] == [
        ["start"],
        [],
        ["text_start", "text_delta", "text_delta"],
        ["text_end", "done"],
    ]


def test_a_source_that_has_read_nothing_keeps_nothing() -> None:
    source = source_of()
    assert (source.kept, source.completed, source.ended) == (0, False, False)


async def test_notices_come_with_the_start() -> None:
    notice = Notice("option_ignored", "toy has no seed")
    events = await events_of(*HELLO, notices=(notice,))
    assert events[1] == notice


async def test_a_notice_about_a_line_comes_between_the_frames_around_it() -> None:
    events = await events_of(HELLO[1] + b"datum: x\n" + HELLO[2], HELLO[-1])
    assert types(events)[1:5] == ["text_start", "text_delta", "notice", "text_delta"]


async def test_taps_get_every_byte_as_it_was_read() -> None:
    seen: list[bytes] = []
    source = source_of(*HELLO, taps=[lambda _, __, data: seen.append(data)])
    async for _ in source:
        pass
    assert seen == HELLO


async def test_a_notice_of_the_attempts_comes_with_the_read_at_which_it_is_made() -> None:
    def tap(attempt: Any, leg: Any, data: bytes) -> None:
        if b"Hel" in data:
            attempt.notice("odd", "the first text")

    events = await events_of(frame(text="Hel"), frame(text="lo"), *HELLO[-2:], taps=[tap])
    assert types(events)[1:4] == ["notice", "text_start", "text_delta"]


async def test_facts_of_an_answer_are_available_while_it_streams() -> None:
    known: list[Any] = []

    def tap(attempt: Any, leg: Any, data: bytes) -> None:
        output = attempt.usage and attempt.usage.output
        known.append((attempt.response_id, output, attempt.response_model))

    said = [frame(usage={"output": 3}), frame(text="b"), frame(id="r1"), frame(model="m")]
    await events_of(frame(text="a"), *said, *HELLO[-2:], taps=[tap])
    assert known[:6] == [
        (None, None, None),
        (None, None, None),
        (None, 3, None),
        (None, 3, None),
        ("r1", 3, None),
        ("r1", 3, "m"),
    ]


async def test_what_fails_halfway_says_so_whenever_its_failure_thinks_it_was() -> None:
    reset = ProviderFailure(Failure("connect", kind=Kind.NETWORK, message="reset"))
    for pieces, phase in (((reset,), "connect"), ((frame(text="a"), reset), "streaming")):
        assert (await events_of(*pieces))[-1].phase == phase


# -- malformed frames ----------------------------------------------------------------------------

NOISE = b"data: ping\n\n"


def nested(levels: int) -> bytes:
    """Return a frame whose unknown key has nested arrays."""
    return b'data: {"new": ' + b"[" * levels + b'"%s"' % (b"x" * 1024) + b"]" * levels + b"}\n\n"


def sized(size: int) -> bytes:
    """Return a frame of this size whose unknown key has nested arrays."""
    text = b'{"new": ' + b"[" * 200 + b"]" * 200 + b"}"
    return b"data: " + text.replace(b": ", b":".ljust(size - len(text) + 2)) + b"\n\n"


# (name, frames that do not parse at each place, how many notices, whether it fails)
SKIPS: list[tuple[str, list[bytes], int, bool]] = [
    ("none", [], 0, False),
    ("one", [BAD], 1, False),
    ("three_in_a_row", [BAD] * 3, 3, False),
    ("four_in_a_row", [BAD] * 4, 3, True),
    ("three_in_a_row_twice", [*[BAD] * 3, frame(text="x"), *[BAD] * 3], 6, False),
    ("ten_in_all", [BAD, frame(text="x")] * 10, 10, False),
    ("eleven_in_all", [BAD, frame(text="x")] * 11, 10, True),
    ("not_utf_8", [b'data: {"text": "\xff\xfe"}\n\n'], 1, False),
    ("an_unknown_field_alone", [b"dota: x\n\n"], 1, False),
    ("an_unknown_field_after_a_frame", [frame(text="x") + b"dota: x\n\n"], 1, False),
    ("an_unknown_field_before_a_frame", [b"dota: x\n" + frame(text="x")], 1, False),
    ("not_utf_8_in_another_read", [b'data: {"new": "\xff', b"a", b'"}\n\n'], 1, False),
    ("not_an_object", [b"data: [1]\n\n"], 1, False),
    ("a_lone_surrogate", [b'data: {"text": "\\ud83e"}\n\n'], 1, False),
    ("unknown_keys", [b'data: {"new": 1}\n\n'], 0, False),
    ("nested_too_deep", [b"data: " + b"[" * 100_000 + b"\n\n"], 1, False),
    ("nested_too_deep_in_more_than_1_kib", [sized(1025)], 1, False),
    ("nested_too_deep_in_1_kib", [sized(1024)], 0, False),
    ("nested_as_deep_as_allowed", [nested(MAX_DEPTH - 1)], 0, False),
    ("nested_too_deep_in_an_unknown_key", [nested(MAX_DEPTH)], 1, False),
    ("noise", [NOISE] * 4, 4, False),
    ("noise_between", [BAD, BAD, NOISE, BAD], 4, False),
    ("noise_does_not_break_a_run", [BAD, BAD, BAD, NOISE, BAD], 4, True),
    ("noise_without_end", [NOISE] * 100, 10, False),
    ("numbers_are_noise", [b"data: 5\n\n"] * 4, 4, False),
]


@pytest.mark.parametrize(
    ("bad", "notices", "fails"), [case[1:] for case in SKIPS], ids=[case[0] for case in SKIPS]
)
async def test_malformed_frames_are_skipped_up_to_a_bound_and_seen(
    bad: list[bytes], notices: int, fails: bool
) -> None:
    events = await events_of(frame(text="a"), *bad, *HELLO[-2:], malformed="skip")
    assert types(events).count("notice") == notices
    if fails:
        assert (events[-1].error_kind, events[-1].code) == (Kind.PROTOCOL, "malformed")
        assert "broken" in events[-1].error_message
    else:
        assert isinstance(events[-1], Done)


async def test_taps_are_shown_what_is_read_after_the_end_too() -> None:
    seen: list[bytes] = []
    pieces = [*HELLO, b": one\n\n", b": two\n\n"]
    await events_of(*pieces, taps=[lambda _, __, data: seen.append(data)])
    assert seen == pieces


async def test_the_last_whole_frame_before_a_break_is_read_though_its_end_is_missing() -> None:
    events = await events_of(frame(text="a"), frame(text="b").rstrip(), CUT)
    assert fold(events).text == "ab"
    assert events[-1].error_kind is Kind.NETWORK


async def test_a_frame_that_is_passed_over_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    await events_of(frame(text="a"), BAD, *HELLO[-2:], malformed="skip")
    assert "toy/large: a malformed frame is skipped: " in caplog.text


async def test_a_frame_that_the_input_ends_inside_of_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "swink_core")
    await events_of(frame(text="a"), b'data: {"text"', CUT)
    assert "the input ends inside a frame of 7 bytes" in caplog.text


@pytest.mark.parametrize("at", range(len(HELLO)))
async def test_a_damaged_frame_at_any_place_means_what_the_policy_says(at: int) -> None:
    pieces = [*HELLO[:at], BAD, *HELLO[at:]]
    ends = {}
    for policy in ("read_on", "skip", "fail"):
        events = await events_of(*pieces, malformed=policy)
        codes = [e.code for e in events if isinstance(e, Notice)]
        kind = getattr(events[-1], "error_kind", None)
        ends[policy] = (fold(events).text, codes, kind, getattr(events[-1], "code", None))
    before = "".join(event.delta for event in await events_of(*HELLO[:at]) if is_text(event))
    notices = ["malformed_frame"]
    assert ends == {
        "read_on": ("Hello", notices, Kind.PROTOCOL, "damaged_frame"),
        "skip": ("Hello", notices, None, None),
        "fail": (before, [], Kind.PROTOCOL, "damaged_frame"),
    }


def is_text(event: Any) -> bool:
    return isinstance(event, swink.TextDelta)


@pytest.mark.parametrize("policy", ["read_on", "skip", "fail"])
@pytest.mark.parametrize("at", range(len(HELLO)))
async def test_noise_at_any_place_takes_nothing_away(at: int, policy: str) -> None:
    events = await events_of(*HELLO[:at], NOISE, *HELLO[at:], malformed=policy)
    assert fold(events).text == "Hello"
    assert isinstance(events[-1], Done)
    assert [e.code for e in events if isinstance(e, Notice)] == ["noise"]


NOT = frame(text="NOT ")
DAMAGED = {
    "a raw null": NOT.replace(b"O", b"\0"),
    "a raw tab": NOT.replace(b"O", b"\t"),
    "no brace at its end": NOT.replace(b"}", b""),
    "no brace at its beginning": NOT.replace(b"{", b""),
    "no quotation mark": NOT.replace(b'"', b"", 1),
    "no colon": NOT.replace(b'": ', b'" '),
    "a number for its text": b'data: {"text": 5}\n\n',
    "a list for its text": b'data: {"text": ["NOT "]}\n\n',
    "a list around it": b'data: [{"text": "NOT "}]\n\n',
    "something after it": NOT.replace(b"}", b"} x"),
    "cut in two": b'data: {"text": "N\n\ndata: OT "}\n\n',
    "its text alone": b'data: "NOT "\n\n',
    "a bad escape": NOT.replace(b"O", b"\\O"),
    "half an escape": NOT.replace(b"O", b"\\u00"),
    "compressed bytes": b'data: \x1f\x8b\x08\xff"\xfe\n\n',
}


@pytest.mark.parametrize("way", DAMAGED)
async def test_a_part_of_an_answer_is_never_given_out_as_the_whole(way: str) -> None:
    events = await events_of(frame(text="Do "), DAMAGED[way], frame(text="delete it."), END)
    assert isinstance(events[-1], Error)
    assert (events[-1].error_kind, events[-1].code) == (Kind.PROTOCOL, "damaged_frame")
    assert fold(events).text == "Do delete it."


@pytest.mark.parametrize(("malformed", "code"), [("read_on", "damaged_frame"), ("skip", "cut")])
async def test_a_stream_without_its_completing_frame_was_damaged_if_a_frame_was(
    malformed: str, code: str
) -> None:
    events = await events_of(frame(text="a"), BAD, malformed=malformed)
    assert events[-1].code == code


async def test_damage_before_a_restart_is_discarded() -> None:
    events = await events_of(frame(text="a"), BAD, frame(restart="again"), *HELLO)
    assert isinstance(events[-1], Done)
    assert fold(events).text == "Hello"


class Counting(ToyParser):
    """Counts its frames; the count of all frames of a read is reported after the read."""

    class writer(EventWriter):
        def notice(self, code: str, detail: str = "") -> None:
            super().notice(f"own_{code}", detail)

    def __init__(self) -> None:
        self.frames = 0
        self.reads = 0

    def feed(self, data: bytes, out: EventWriter) -> None:
        self.frames += 1
        super().feed(data, out)

    def after_read(self, out: EventWriter) -> None:
        self.reads += 1
        out.usage(input=self.frames)


async def test_a_parser_reports_after_each_read_and_after_a_frame_without_its_end() -> None:
    parser = Counting()
    pieces = chunks_of(frame(text="a") + frame(text="b"), b"", STOP[:-1])
    source = EventSource(call_of(TOY, "large"), pieces, SSEDecoder(), parser)
    events = [event async for event in source]
    assert (parser.frames, parser.reads) == (3, 4)
    assert events[-1].usage == swink.Usage(input=3, reported=True)  # type: ignore[union-attr]


async def test_a_parser_may_have_a_writer_of_its_own() -> None:
    source = EventSource(call_of(TOY, "large"), chunks_of(BAD, *HELLO), SSEDecoder(), Counting())
    events = [event async for event in source]
    assert [event.code for event in events if isinstance(event, Notice)] == ["own_malformed_frame"]


class Whole:
    """A decoder whose frames are the reads, and are not UTF-8."""

    binary = True

    def feed(self, data: bytes) -> list[bytes]:
        return [data] if data else []

    def finish(self) -> list[bytes]:
        return []


class Latin:
    """A parser whose frames are text, each a part of the answer."""

    def feed(self, frame: bytes, out: EventWriter) -> None:
        out.text(frame.decode("latin-1"))
        out.stop(StopReason.STOP)


class Said(msgspec.Struct):
    text: str = ""


class Skipping:
    """A parser that skips fields with unknown names."""

    def feed(self, frame: bytes, out: EventWriter) -> None:
        out.text(msgspec.json.decode(frame, type=Said).text)


@pytest.mark.parametrize("unended", [True, False])
async def test_a_frame_is_checked_where_its_parser_skips_it(unended: bool) -> None:
    bad = b'data: {"text": "b", "new": "\xff"}' + b"\n\n" * (not unended)
    pieces = chunks_of(frame(text="a"), bad)
    source = EventSource(call_of(TOY, "large"), pieces, SSEDecoder(), Skipping())
    assert fold([event async for event in source]).text == "a"


@pytest.mark.parametrize(
    "reads",
    [
        [b'data: {"text": "b", "new": "\xff', b'"}\n\n'],
        [b'data: {"text": "b", "new": "\xff', b"x", b'"}\n\n'],
        [frame(text="") + b'data: {"text": "b", "new": "\xff', b'"}\n\n'],
    ],
)
async def test_a_frame_is_checked_as_a_whole_however_it_was_read(reads: list[bytes]) -> None:
    pieces = chunks_of(frame(text="a"), *reads)
    source = EventSource(call_of(TOY, "large"), pieces, SSEDecoder(), Skipping())
    assert fold([event async for event in source]).text == "a"


class Objects:
    """A parser whose calls have their arguments as JSON objects."""

    def feed(self, frame: bytes, out: EventWriter) -> None:
        for name, value in msgspec.json.decode(frame).items():
            if name == "f":
                out.tool_call(None, "a", name, msgspec.json.encode(value).decode())
                out.stop(StopReason.STOP)


async def test_arguments_nested_too_deep_are_kept_as_text_but_no_other_data() -> None:
    deep = b'{"x": ' + b"[" * 600 + b"]" * 600 + b"}"
    pieces = chunks_of(b'data: {"f": ' + deep + b"}\n\n" + b'data: {"g": ' + deep + b"}\n\n")
    source = EventSource(call_of(TOY, "large"), pieces, SSEDecoder(), Objects(), malformed="skip")
    events = [event async for event in source]
    assert [event.code for event in events if isinstance(event, Notice)] == ["malformed_frame"]
    [call] = fold(events).tool_calls
    assert (call.raw_arguments, call.state) == (deep.replace(b" ", b"").decode(), "invalid")


async def test_a_frame_with_a_wrong_checksum_is_no_noise() -> None:
    class Checking:
        def feed(self, frame: bytes, out: EventWriter) -> None:
            raise FrameError("the checksum is wrong")

    source = EventSource(call_of(TOY, "large"), chunks_of(b"data: x\n\n"), SSEDecoder(), Checking())
    events = [event async for event in source]
    assert [event.code for event in events if isinstance(event, Notice)] == ["malformed_frame"]


async def test_events_name_the_provider_and_the_attempt_they_are_of() -> None:
    events = await events_of(frame(extension={"a": 1}), frame(call={"key": 0, "name": "f"}), END)
    extension = next(event for event in events if isinstance(event, swink.Extension))
    assert extension.provider == "toy"
    restarted = await events_of(frame(restart="anew"), *HELLO)
    assert next(e.model for e in restarted if isinstance(e, swink.Retry)) == "toy/large"


async def test_the_size_of_an_answer_is_known_while_it_streams_and_after_it() -> None:
    source = source_of(frame(text="Hel"), frame(text="lo"), frame(text="!", stop="stop"))
    assert [source.kept async for _ in source.batches()] == [0, 3, 5, 6, 6]
    ended = source_of(frame(text="Hello", stop="stop", finish=True))
    assert [ended.kept async for _ in ended.batches()] == [0, 5]


async def test_the_usage_of_an_answer_before_a_restart_is_voided() -> None:
    call = call_of(TOY, "large")
    pieces = chunks_of(frame(usage={"output": 3}), frame(restart="anew"), *HELLO)
    async for _ in EventSource(call, pieces, SSEDecoder(), ToyParser()):
        pass
    assert call.attempt.voided == [(swink.Usage(output=3, reported=True), None)]


async def test_frames_that_are_not_text_are_not_checked_as_json() -> None:
    pieces = [b"\xfc", b"[" * 2000 + b"]" * 2000, b'{"a": "\\ud83e"}']
    source = EventSource(call_of(TOY, "large"), chunks_of(*pieces), Whole(), Latin())
    events = [event async for event in source]
    assert fold(events).text == b"".join(pieces).decode("latin-1")
    assert types(events) == ["start", "text_start", *["text_delta"] * 3, "text_end", "done"]


async def test_repaired_arguments_have_the_intended_value() -> None:
    events = await events_of(b'data: {"text": "a\\ud83e\\udd8ab\\ud83e"}\n\n', END)
    assert fold(events).text == "a🦊b\N{REPLACEMENT CHARACTER}"


async def test_a_parser_that_raises_something_else_is_not_taken_for_a_malformed_frame() -> None:
    with pytest.raises(TypeError):
        await events_of(frame(call=5))


async def test_a_frame_that_is_too_long_fails_after_those_before_it() -> None:
    events = await events_of(frame(text="a") + frame(text="b" * 200), *HELLO, limit=100)
    assert fold(events).text == "a"
    assert (events[-1].error_kind, events[-1].code) == (Kind.PROTOCOL, "frame")
    assert "100 bytes" in events[-1].error_message


# -- usage, ids ----------------------------------------------------------------------------------


async def test_usage_after_the_stop_is_waited_for() -> None:
    events = await events_of(frame(text="a"), STOP, frame(usage={"input": 1, "output": 2}))
    assert events[-1] == Done(
        StopReason.STOP, swink.Usage(input=1, output=2, total=3, reported=True)
    )


@pytest.mark.parametrize("ending", [END, CUT, STOP])
async def test_facts_of_the_answer_are_on_its_terminal_event_whichever(ending: Any) -> None:
    events = await events_of(frame(facts={"tier": "auto"}), frame(text="a"), ending)
    assert events[-1].metadata == {"tier": "auto"}
    assert fold(events).metadata == {"tier": "auto"}


async def test_facts_of_an_answer_that_is_aborted_are_kept() -> None:
    source = source_of(frame(facts={"tier": "auto"}))
    source.begin()
    source.take(await source.pull())
    cancelled = Failure("streaming", kind=Kind.CANCELLED)
    assert source.cut(cancelled)[-1].metadata == {"tier": "auto"}  # type: ignore[attr-defined]  # Error
    await source.aclose()


async def test_usage_is_on_the_terminal_event_of_a_failure_too() -> None:
    events = await events_of(frame(id="r1"), frame(usage={"input": 1}), CUT)
    assert events[-1].usage == swink.Usage(input=1, reported=True)
    assert events[-1].response_id == "r1"


# -- what is left open ---------------------------------------------------------------------------


class Chunks:
    """An input that records how much of it was read, and that it was closed."""

    def __init__(self, *pieces: bytes, then_wait: bool = False) -> None:
        self.pieces = list(pieces)
        self.then_wait = then_wait
        self.closed = False

    def __aiter__(self) -> Chunks:
        return self

    async def __anext__(self) -> bytes:
        if self.pieces:
            return self.pieces.pop(0)
        if self.then_wait:
            await asyncio.Event().wait()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        self.closed = True


def source_on(chunks: Chunks) -> EventSource:
    return EventSource(call_of(TOY, "large"), chunks, SSEDecoder(), ToyParser())


async def test_after_the_end_the_rest_of_the_input_is_read_so_that_the_connection_is_kept() -> None:
    chunks = Chunks(*HELLO, b": bye\n\n")
    events = [event async for event in source_on(chunks)]
    assert isinstance(events[-1], Done)
    assert (chunks.pieces, chunks.closed) == ([], True)


async def test_no_more_than_a_bounded_rest_is_read() -> None:
    chunks = Chunks(*HELLO, *[b":" * 1024] * 1024)
    source = source_on(chunks)
    async for _ in source:
        pass
    await source.aclose()  # once more
    assert len(chunks.pieces) == 1024 - 65
    assert chunks.closed


async def test_an_input_that_has_ended_is_not_read_again() -> None:
    class Ended(Chunks):
        at_end = True

    chunks = Ended(*HELLO, b": bye\n\n")
    async for _ in source_on(chunks):
        pass
    assert (chunks.pieces, chunks.closed) == ([b": bye\n\n"], True)


async def test_an_input_that_does_not_end_is_not_waited_for() -> None:
    chunks = Chunks(*HELLO, then_wait=True)
    async with asyncio.timeout(10):
        async for _ in source_on(chunks):
            pass
    assert chunks.closed


@pytest.mark.parametrize("number", range(1, 7))
async def test_left_after_any_event_the_input_is_closed(number: int) -> None:
    chunks = Chunks(*HELLO, then_wait=True)
    events = aiter(source_on(chunks))
    for _ in range(number):
        await anext(events)
    await events.aclose()
    assert chunks.closed

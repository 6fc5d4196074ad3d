"""Server-sent events: the specification's cases, whole and cut anywhere."""

import json
import pickle
import random
import re
import tracemalloc
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core.framing.frame import FrameTooLong
from swink_core.framing.sse import MAX_NAME, MAX_REPORTS, SSEDecoder
from swink_test_helpers.corpus import corpus_folder

CORPUS_CASES = sorted((corpus_folder() / "sse").glob("*.sse"))

# Above this size, cutting at every position is left to smaller cases of the same shape.
EVERY_CUT_BYTES = 5_000


def decode(decoder: SSEDecoder, chunks: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Feed the chunks; return the frames, and what end of input left."""
    frames: list[bytes] = []
    for chunk in chunks:
        frames += decoder.feed(chunk)
    return frames, list(decoder.finish())


def split(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    bounds = [0, *sorted(cuts), len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]


def byte_by_byte(data: bytes) -> list[bytes]:
    return split(data, range(1, len(data)))


def chunkings(data: bytes) -> Iterable[list[bytes]]:
    """Whole, byte by byte, with every single cut (of small inputs), and at random."""
    yield [data]
    yield byte_by_byte(data)
    if len(data) <= EVERY_CUT_BYTES:
        for cut in range(len(data) + 1):
            yield split(data, [cut])
    rng = random.Random(len(data))
    for _ in range(25):
        cuts = rng.choices(range(len(data) + 1), k=rng.randint(1, 40))
        yield split(data, cuts)


def interpret(stream: bytes) -> tuple[list[bytes], list[bytes]]:
    """The specification's section 9.2.6, transcribed for one complete stream of bytes.

    The second list is the payload that lacks its blank line. A line cut short is left out of it
    unless it is data, which is our rule and not the specification's.
    """
    *lines, cut_line = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))
    if cut_line.split(b":")[0] == b"data":
        lines.append(cut_line)
    payloads, data = [], b""
    for line in lines:
        if line == b"":
            if data:
                payloads.append(data[:-1])
            data = b""
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            if field == b"data":
                data += value.removeprefix(b" ") + b"\n"
    return payloads, [data[:-1]] if data else []


# The specification's rules, one or two cases each: (name, input, payloads).
RULES = [
    ("nothing", b"", []),
    ("blank_lines_only", b"\n\r\r\n\n", []),
    ("one_event", b"data: x\n\n", [b"x"]),
    ("lf_ends_a_line", b"data: x\ndata: y\n\n", [b"x\ny"]),
    ("cr_ends_a_line", b"data: x\rdata: y\r\r", [b"x\ny"]),
    ("crlf_ends_a_line", b"data: x\r\ndata: y\r\n\r\n", [b"x\ny"]),
    ("line_ends_may_be_mixed", b"data: x\r\ndata: y\rdata: z\n\r\n", [b"x\ny\nz"]),
    ("lf_then_cr_is_two_line_ends", b"data: x\n\rdata: y\n\n", [b"x", b"y"]),
    ("form_feed_is_not_a_line_end", b"data: x\x0b\x0c\x85y\n\n", [b"x\x0b\x0c\x85y"]),
    ("one_space_is_removed", b"data:  x \n\n", [b" x "]),
    ("a_tab_is_kept", b"data:\tx\n\n", [b"\tx"]),
    ("the_space_is_optional", b"data:x\n\n", [b"x"]),
    ("a_value_may_hold_colons", b"data: a:b: c\n\n", [b"a:b: c"]),
    ("a_field_may_lack_its_colon", b"data\ndata\n\n", [b"\n"]),
    ("one_empty_data_line_dispatches_empty_data", b"data:\n\n", [b""]),
    ("without_data_nothing_is_dispatched", b"event: ping\nid: 1\n\n", []),
    ("a_name_does_not_outlive_its_frame", b"event: a\n\ndata: x\n\n", [b"x"]),
    ("names_are_dropped", b"event: a\nevent\nevent: \xff\ndata: x\n\n", [b"x"]),
    ("ids_are_dropped", b"id: 1\ndata: x\n\nid\nid: \0\xff\ndata: y\n\n", [b"x", b"y"]),
    ("a_time_to_reconnect_is_dropped", b"retry: 5\ndata: x\n\n", [b"x"]),
    ("invalid_data_is_the_parsers_affair", b"data: \xff\n\n", [b"\xff"]),
    ("comments_are_ignored", b": x\n:\ndata: x\n:data: y\n\n:\n\n", [b"x"]),
    ("unknown_fields_are_ignored", b"foo: x\nfoo\n data: y\nDATA: y\ndata: x\n\n", [b"x"]),
    ("a_leading_bom_is_removed", b"\xef\xbb\xbfdata: x\n\n", [b"x"]),
    ("a_second_bom_is_not", b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n", []),
    ("half_a_bom_is_not_one", b"\xef\xbbdata: x\n\ndata: y\n\n", [b"y"]),
    ("a_bom_in_data_is_data", b"data: \xef\xbb\xbf\n\n", [b"\xef\xbb\xbf"]),
    ("a_bom_after_a_frame_is_no_bom", b"data: x\n\n\xef\xbb\xbfdata: y\n\n", [b"x"]),
]

# Frames of the shapes that have a short cut, and their nearest neighbours that must not take it.
SHORT_CUTS = [
    ("plain", b'data: {"a":1}\n\n' * 3, [b'{"a":1}'] * 3),
    ("without_space", b"data:x\n\ndata: y\n\ndata:  z\n\n", [b"x", b"y", b" z"]),
    ("named", b"event: a\ndata: x\n\nevent: b\ndata: y\n\n", [b"x", b"y"]),
    ("named_and_unnamed", b"data: x\n\nevent: b\ndata: y\n\ndata: z\n\n", [b"x", b"y", b"z"]),
    ("plain_with_crlf", b"data: x\r\n\r\ndata: y\r\n\r\n", [b"x", b"y"]),
    ("named_with_crlf", b"event: a\r\ndata: x\r\n\r\n" * 2, [b"x", b"x"]),
    ("empty_payloads", b"data: \n\ndata:\n\ndata: x\n\ndata:\n\n", [b"", b"", b"x", b""]),
    ("two_data_lines", b"data: x\n\ndata: y\ndata: z\n\n", [b"x", b"y\nz"]),
    ("two_data_lines_with_crlf", b"data: x\r\n\r\ndata: y\r\ndata: z\r\n\r\n", [b"x", b"y\nz"]),
    ("a_name_after_data", b"data: x\nevent: a\n\ndata: y\n\n", [b"x", b"y"]),
    ("a_name_without_data", b"data: x\n\nevent: a\n\ndata: y\n\n", [b"x", b"y"]),
    ("a_comment_between", b"data: x\n\n: ping\n\ndata: y\n\n", [b"x", b"y"]),
    ("a_field_that_ends_in_data", b"xdata: x\n\ndata: y\n\n", [b"y"]),
    ("three_blank_lines", b"data: x\n\n\n\ndata: y\n\n", [b"x", b"y"]),
    ("a_cr_in_data", b"data: x\n\ndata: y\rdata: z\n\n", [b"x", b"y\nz"]),
    ("a_cr_in_data_of_crlf", b"data: x\r\n\r\ndata: y\rdata: z\r\n\r\n", [b"x", b"y\nz"]),
    ("a_cr_ends_crlf_data", b"data: x\r\n\r\ndata: y\r\r\n\r\n", [b"x", b"y"]),
    ("a_cr_in_a_name", b"event: a\rdata: x\ndata: y\n\n", [b"x\ny"]),
    ("a_field_that_ends_without_a_value", b"data: x\r\ndata\r\n\r\n", [b"x\n"]),
    ("line_ends_change", b"data: x\n\ndata: y\r\n\r\ndata: z\r\r", [b"x", b"y", b"z"]),
    ("a_payload_like_a_frame", b"data: data: x\n\ndata: event: y\n\n", [b"data: x", b"event: y"]),
]


@pytest.mark.parametrize(
    ("stream", "expected"), [case[1:] for case in RULES], ids=[case[0] for case in RULES]
)
def test_the_specifications_rules(stream: bytes, expected: list[bytes]) -> None:
    assert interpret(stream)[0] == expected
    for chunks in chunkings(stream):
        assert decode(SSEDecoder(), chunks)[0] == expected


@pytest.mark.parametrize(
    ("stream", "expected"), [case[1:] for case in SHORT_CUTS], ids=[case[0] for case in SHORT_CUTS]
)
def test_short_cuts_and_their_neighbours_give_the_same_payloads(
    stream: bytes, expected: list[bytes]
) -> None:
    assert interpret(stream)[0] == expected
    for chunks in chunkings(stream):
        assert decode(SSEDecoder(), chunks) == (expected, [])
        # The first read of a stream never takes the short cut, so have one before.
        assert decode(SSEDecoder(), [b"data: 0\n\n", *chunks]) == ([b"0", *expected], [])


@pytest.mark.parametrize("path", CORPUS_CASES, ids=lambda path: path.stem)
def test_the_corpus_however_it_is_cut(path: Path) -> None:
    stream = path.read_bytes()
    expect = json.loads(path.with_suffix(".meta.json").read_text(encoding="utf-8"))["expect"]
    # The corpus gives text, and we give bytes.
    expected = [event["data"] for event in expect["events"]]
    for chunks in chunkings(stream):
        payloads, left = decode(SSEDecoder(), chunks)
        assert [payload.decode(errors="replace") for payload in payloads] == expected
        assert bool(left) == expect["pending_discarded"]


LINE_ENDS = [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n"]
PARTS = [b":", b" ", b"data", b"data: ", b"data:x", b"event: ", b"id", b"foo", b"7"]
ODD_BYTES = [b"\0", b"\xef\xbb\xbf", b"\xef", b"\xbb", b"\xff"]
WHOLE = [b"id: 1\n", b"retry: 5\n", b"data: x\n\n", b"event: e\ndata: y\n\n", b"data: z\r\n\r\n"]
DAMAGED = [b"event: edata: x\ndata: y\n\n", b"event: e: f\ndata: y\n\n"]
PIECES = st.sampled_from([*LINE_ENDS, *PARTS, *ODD_BYTES, *WHOLE, *DAMAGED])


@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=12))
def test_any_chunking_of_any_stream_gives_what_the_specification_gives(
    stream: bytes, positions: list[int]
) -> None:
    expected = interpret(stream)
    for chunks in ([stream], split(stream, [min(p, len(stream)) for p in positions])):
        assert decode(SSEDecoder(), chunks) == expected


# (name, input, what finish() returns)
LEFT_OVERS = [
    ("nothing_after_a_complete_frame", b"data: x\n\n", []),
    ("nothing_of_an_empty_stream", b"", []),
    ("a_frame_without_its_blank_line", b"data: x\n", [b"x"]),
    ("a_frame_without_its_line_end", b"event: e\nid: 1\ndata: x", [b"x"]),
    ("a_frame_that_lacks_half_a_crlf", b"data: x\r", [b"x"]),
    ("a_cut_data_line_after_a_whole_one", b"data: x\ndata: y", [b"x\ny"]),
    ("not_a_cut_id", b"data: x\nid: 1", [b"x"]),
    ("not_a_cut_name", b"data: x\nevent: e", [b"x"]),
    ("not_a_cut_field_name", b"data: x\n\ndat", []),
    ("not_a_frame_without_data", b"event: e\nid: 1\n", []),
    ("not_a_comment", b": ping", []),
    ("not_half_a_bom", b"\xef\xbb", []),
]


@pytest.mark.parametrize(
    ("stream", "expected"), [case[1:] for case in LEFT_OVERS], ids=[case[0] for case in LEFT_OVERS]
)
def test_finish_returns_the_incomplete_frame(stream: bytes, expected: list[bytes]) -> None:
    for chunks in chunkings(stream):
        assert decode(SSEDecoder(), chunks)[1] == expected


@pytest.mark.parametrize("stream", [b"data: x\nfoo", b"data: x", b"data: x\n"])
def test_finish_returns_the_incomplete_frame_once(stream: bytes) -> None:
    decoder = SSEDecoder()
    assert decoder.feed(stream) == []
    assert decoder.finish() == [b"x"]
    assert decoder.finish() == []


LIMIT = 20

# (name, input, whether it is too long); "data: " is 6 bytes of a frame's 20.
LIMITS = [
    ("a_frame_at_the_limit", b"data: " + b"x" * 14 + b"\n\n", False),
    ("a_frame_at_the_limit_with_crlf", b"data: " + b"x" * 14 + b"\r\n\r\n", False),
    ("a_frame_at_the_limit_after_a_bom", b"\xef\xbb\xbfdata: " + b"x" * 14 + b"\n\n", False),
    ("two_frames_at_the_limit", b"data: " + b"x" * 14 + b"\n\ndata:" + b"x" * 15 + b"\n\n", False),
    ("a_frame_one_over", b"data: " + b"x" * 15 + b"\n\n", True),
    ("a_frame_one_over_with_crlf", b"data: " + b"x" * 15 + b"\r\n\r\n", True),
    ("an_unterminated_line_at_the_limit", b"data: " + b"x" * 14, False),
    ("an_unterminated_line_one_over", b"data: " + b"x" * 15, True),
    ("an_unknown_line_one_over", b"foo: " + b"x" * 16 + b"\n", True),
    ("lines_that_sum_to_the_limit", b"event: abc\ndata: wxyz\n\n", False),
    ("lines_that_sum_to_one_over", b"event: abc\ndata: vwxyz\n\n", True),
    ("an_unterminated_line_that_makes_the_sum_one_over", b"event: abc\ndata: vwxyz", True),
    ("many_short_unknown_lines", b"a\n" * 21, True),
    ("a_long_frame_after_short_ones", b"data: x\n\n" * 9 + b"data: " + b"x" * 15 + b"\n\n", True),
    ("many_small_frames", b"data: xyz\n\n" * 100, False),
    ("many_small_frames_and_a_cut_one", b"data: xyz\n\n" * 100 + b"data: ", False),
    ("many_comments_in_a_frame", b": ping\n" * 100 + b"data: x\n" + b": ping\n" * 100, False),
    ("a_long_comment", b":" + b"x" * 100 + b"\ndata: " + b"x" * 14 + b"\n\n", False),
    ("a_long_unterminated_comment", b"data: " + b"x" * 14 + b"\n:" + b"x" * 100, False),
    ("many_blank_lines", b"\n" * 100, False),
]


@pytest.mark.parametrize(
    ("stream", "too_long"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS]
)
def test_the_limit_counts_one_frames_lines(stream: bytes, too_long: bool) -> None:
    for chunks in chunkings(stream):
        decoder = SSEDecoder(limit=LIMIT)
        if too_long:
            with pytest.raises(FrameTooLong):
                decode(decoder, chunks)
        else:
            decode(decoder, chunks)


def test_a_frame_that_is_too_long_may_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(FrameTooLong("an SSE frame", 20)))
    assert str(error) == str(FrameTooLong("an SSE frame", 20))


@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n"])
def test_a_frame_that_is_too_long_is_named_with_the_limit(end: bytes) -> None:
    with pytest.raises(FrameTooLong, match="SSE frame is longer than the limit of 20 bytes") as e:
        SSEDecoder(limit=LIMIT).feed(b"data: " + b"x" * 15 + end)
    assert (e.value.limit, e.value.frames) == (LIMIT, [])


SIZE = 50_000

# (name, a stream of about SIZE bytes that arrives byte by byte)
SLOW_STREAMS = [
    ("one_long_line", b"data: " + b"x" * SIZE + b"\n\n"),
    ("many_data_lines", b"data: x\n" * (SIZE // 8) + b"\n"),
    ("a_long_comment", b":" + b"x" * SIZE + b"\n\n"),
    ("many_comments", b"data: x\n" + b":\n" * (SIZE // 2) + b"\n"),
]


@pytest.mark.parametrize(
    "stream", [case[1] for case in SLOW_STREAMS], ids=[case[0] for case in SLOW_STREAMS]
)
def test_bytes_that_arrive_one_by_one_are_copied_a_constant_number_of_times(stream: bytes) -> None:
    # What a call allocates bounds what it copies; copying all that is pending on each of the
    # 50,000 calls would sum to 1.2 GB. A call allocates about 100 bytes, under coverage 1,000.
    assert allocated_by(SSEDecoder().feed, stream) < 2_000 * SIZE


def test_an_endless_comment_is_not_kept() -> None:
    decoder = SSEDecoder()
    decoder.feed(b":")
    tracemalloc.start()
    try:
        for _ in range(100):
            decoder.feed(b"x" * 1_000)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 20_000


def allocated_by(feed: Callable[[bytes], object], stream: bytes) -> int:
    """Feed the stream byte by byte; return the sum of the calls' peak allocations in bytes."""
    total = 0
    tracemalloc.start()
    try:
        for piece in byte_by_byte(stream):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            feed(piece)
            total += tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    return total


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_frames_before_one_that_is_too_long_are_not_lost(pieces: int) -> None:
    body = b"data: a\n\n: c\n\ndata: b\n\ndata: " + b"x" * 40 + b"\n\n"
    decoder = SSEDecoder(limit=20)
    frames: list[bytes] = []

    def feed_all() -> None:
        for start in range(0, len(body), pieces):
            frames.extend(decoder.feed(body[start : start + pieces]))

    with pytest.raises(FrameTooLong) as caught:
        feed_all()
    assert frames + caught.value.frames == [b"a", b"b"]


def unknown(name: str) -> str:
    return f"a line has the unknown field name '{name}'"


def reported_lines(stream: bytes) -> list[tuple[int, str]]:
    """Return the expected reports, each with the number of frames before it.

    No report is made of a last line without its line end.
    """
    frames, has_data = 0, False
    told: list[tuple[int, str]] = []
    for line in re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]:
        field, _, value = line.partition(b":")
        if line == b"":
            frames, has_data = frames + has_data, False
        elif field == b"data":
            has_data = True
        elif field not in (b"", b"event", b"id", b"retry"):
            told.append((frames, unknown(ascii(field[:MAX_NAME].decode("latin-1"))[1:-1])))
        elif field and b"data:" in value:
            told.append((frames, f"a line of data is part of the field '{field.decode()}'"))
    return told


def reports(chunks: Iterable[bytes]) -> list[tuple[int, str]]:
    """Feed the chunks; return the reports, each with the number of frames before it.

    Fails for a report with another code than `unknown_field`.
    """
    decoder = SSEDecoder()
    frames = 0
    told: list[tuple[int, str]] = []
    for chunk in chunks:
        completed = len(decoder.feed(chunk))
        for before, code, detail in decoder.reports:
            assert code == "unknown_field"
            told.append((frames + before, detail))
        decoder.reports.clear()
        frames += completed
    return told


# (name, input, what is reported before which frame)
REPORTS: list[tuple[str, bytes, list[tuple[int, str]]]] = [
    ("fields_of_the_specification", b"event: a\nid: 1\nretry: 5\n: c\ndata: x\n\n", []),
    ("an_unknown_field", b"data: x\n\ndota: y\n\ndata: z\n\n", [(1, unknown("dota"))]),
    ("a_field_without_a_colon", b"foo\ndata: x\n\n", [(0, unknown("foo"))]),
    ("a_long_name", b"x" * 50 + b"\ndata: x\n\n", [(0, unknown("x" * MAX_NAME))]),
    ("a_name_that_is_not_ascii", b"d\xe4ta: x\n\n", [(0, unknown("d\\xe4ta"))]),
    (
        "data_in_the_line_of_another_field",
        b"event: adata: x\n\n",
        [(0, "a line of data is part of the field 'event'")],
    ),
    (
        "data_in_the_line_of_another_field_of_a_frame_with_data",
        b"event: a\ndata: w\n\nevent: adata: x\ndata: y\n\nevent: a\ndata: z\n\n",
        [(1, "a line of data is part of the field 'event'")],
    ),
    ("data_in_data", b"data: data: x\n\n", []),
    ("the_word_data_without_a_colon", b"event: data\ndata: x\n\n", []),
]


@pytest.mark.parametrize(
    ("stream", "told"), [row[1:] for row in REPORTS], ids=[row[0] for row in REPORTS]
)
def test_a_line_that_is_ignored_is_reported_before_its_frame(
    stream: bytes, told: list[tuple[int, str]]
) -> None:
    assert reported_lines(stream) == told
    for chunks in chunkings(stream):
        assert reports(chunks) == told
        # The first read of a stream never takes the short cut, so have one before.
        assert reports([b"data: 0\n\n", *chunks]) == [(n + 1, detail) for n, detail in told]


@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=12))
def test_any_chunking_of_any_stream_reports_the_same_lines(
    stream: bytes, positions: list[int]
) -> None:
    cuts = split(stream, [min(p, len(stream)) for p in positions])
    # The first read of a stream never takes the short cut, so also have one before.
    for chunks in ([stream], cuts, [b"data: 0\n\n", stream], [b"data: 0\n\n", *cuts]):
        assert reports(chunks) == reported_lines(b"".join(chunks))[:MAX_REPORTS]


def test_a_bounded_number_of_lines_is_reported() -> None:
    decoder = SSEDecoder()
    for _ in range(MAX_REPORTS):
        decoder.feed(b"foo: x\nbar: y\n\n")
    assert len(decoder.reports) == MAX_REPORTS


def test_a_subclass_names_the_further_fields_of_its_provider() -> None:
    class Further(SSEDecoder):
        extra_fields = ("meta",)

    decoder = Further()
    assert decoder.feed(b"meta: x\nmeto: y\ndata: z\n\n") == [b"z"]
    assert decoder.reports == [(0, "unknown_field", unknown("meto"))]

"""Newline-delimited JSON: lines whole and cut anywhere."""

import random
import tracemalloc
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core.framing.frame import FrameTooLong
from swink_core.framing.ndjson import NDJSONDecoder


def decode(decoder: NDJSONDecoder, chunks: Iterable[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Feed the chunks; return the frames, and what end of input left."""
    frames = [frame for chunk in chunks for frame in decoder.feed(chunk)]
    return frames, decoder.finish()


def split(data: bytes, cuts: Iterable[int]) -> list[bytes]:
    bounds = [0, *sorted(cuts), len(data)]
    return [data[a:b] for a, b in pairwise(bounds)]


def chunkings(data: bytes) -> Iterable[list[bytes]]:
    """Whole, byte by byte, with every single cut, and at random."""
    yield [data]
    yield split(data, range(1, len(data)))
    for cut in range(len(data) + 1):
        yield split(data, [cut])
    rng = random.Random(len(data))
    for _ in range(25):
        yield split(data, rng.choices(range(len(data) + 1), k=rng.randint(1, 20)))


# (name, input, lines, what finish() returns)
LINES = [
    ("nothing", b"", [], []),
    ("one_line", b'{"a":1}\n', [b'{"a":1}'], []),
    ("several_lines", b"1\n2\n3\n", [b"1", b"2", b"3"], []),
    ("cr_before_lf_is_dropped", b"1\r\n2\n3\r\n", [b"1", b"2", b"3"], []),
    ("only_one_cr_is_dropped", b"1\r\r\n", [b"1\r"], []),
    ("cr_alone_ends_nothing", b"1\r2\n", [b"1\r2"], []),
    ("blank_lines_are_skipped", b"\n\n1\n\r\n \t\n2\n", [b"1", b"2"], []),
    ("spaces_around_a_value_are_kept", b" 1 \n", [b" 1 "], []),
    ("u2028_is_not_a_line_end", "\u2028\x85\n".encode(), ["\u2028\x85".encode()], []),
    ("a_tail_without_lf", b"1\n2", [b"1"], [b"2"]),
    ("a_tail_that_is_all", b'{"a":', [], [b'{"a":']),
    ("a_tail_with_half_a_crlf", b"1\r", [], [b"1\r"]),
    ("a_blank_tail", b"1\n \r", [b"1"], []),
]


@pytest.mark.parametrize(
    ("stream", "lines", "left"), [case[1:] for case in LINES], ids=[case[0] for case in LINES]
)
def test_each_line_is_a_frame_however_it_is_cut(
    stream: bytes, lines: list[bytes], left: list[bytes]
) -> None:
    for chunks in chunkings(stream):
        assert decode(NDJSONDecoder(), chunks) == (lines, left)


def test_finish_returns_the_tail_once() -> None:
    decoder = NDJSONDecoder()
    assert decoder.feed(b"1") == []
    assert decoder.finish() == [b"1"]
    assert decoder.finish() == []


PIECES = st.sampled_from([b"\n", b"\r", b"\r\n", b" ", b"1", b'{"a":1}', b'{"a":1}\n', b"\xff"])


@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 200), max_size=12))
def test_any_chunking_of_any_stream_gives_the_same_lines(
    stream: bytes, positions: list[int]
) -> None:
    *lines, tail = stream.split(b"\n")
    expected = [line.removesuffix(b"\r") for line in lines if line.strip()]
    left = [tail] if tail.strip() else []
    for chunks in ([stream], split(stream, [min(p, len(stream)) for p in positions])):
        assert decode(NDJSONDecoder(), chunks) == (expected, left)


LIMIT = 10

# (name, input, whether it is too long)
LIMITS = [
    ("a_line_at_the_limit", b"x" * 10 + b"\n", False),
    ("a_line_one_over", b"x" * 11 + b"\n", True),
    ("a_line_one_over_by_its_cr", b"x" * 10 + b"\r\n", True),
    ("an_unterminated_line_at_the_limit", b"x" * 10, False),
    ("an_unterminated_line_one_over", b"x" * 11, True),
    ("a_long_line_after_short_ones", b"1\n" * 50 + b"x" * 11 + b"\n", True),
    ("a_long_line_before_short_ones", b"x" * 11 + b"\n" + b"1\n" * 50, True),
    ("many_short_lines", b"12345\n" * 50, False),
    ("many_short_lines_and_a_tail", b"12345\n" * 50 + b"x" * 10, False),
    ("many_blank_lines", b"\n" * 100, False),
]


@pytest.mark.parametrize(
    ("stream", "too_long"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS]
)
def test_the_limit_counts_one_line(stream: bytes, too_long: bool) -> None:
    for chunks in chunkings(stream):
        if too_long:
            with pytest.raises(FrameTooLong):
                decode(NDJSONDecoder(limit=LIMIT), chunks)
        else:
            decode(NDJSONDecoder(limit=LIMIT), chunks)


def test_a_line_that_is_too_long_is_named_with_the_limit() -> None:
    with pytest.raises(FrameTooLong, match="NDJSON line is longer than the limit of 10 bytes") as e:
        NDJSONDecoder(limit=LIMIT).feed(b"x" * 11)
    assert e.value.limit == LIMIT


def test_bytes_that_arrive_one_by_one_are_copied_a_constant_number_of_times() -> None:
    # What a call allocates bounds what it copies; copying all that is pending on each of the
    # 50,000 calls would sum to 1.2 GB.
    decoder = NDJSONDecoder()
    stream = b"x" * 50_000 + b"\n"
    total = 0
    tracemalloc.start()
    try:
        for piece in split(stream, range(1, len(stream))):
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            decoder.feed(piece)
            total += tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert total < 1_000 * len(stream)


@pytest.mark.parametrize("pieces", [1, 3, 1000])
def test_frames_before_one_that_is_too_long_are_not_lost(pieces: int) -> None:
    body = b'{"a":1}\n{"b":2}\n' + b"x" * 40 + b"\n"
    decoder = NDJSONDecoder(limit=20)
    frames: list[bytes] = []

    def feed_all() -> None:
        for start in range(0, len(body), pieces):
            frames.extend(decoder.feed(body[start : start + pieces]))

    with pytest.raises(FrameTooLong) as caught:
        feed_all()
    assert frames + caught.value.frames == [b'{"a":1}', b'{"b":2}']

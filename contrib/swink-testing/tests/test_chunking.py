"""Chunkings join to the body they cut; truncations end where frames end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core.providers import Decoder, NDJSONDecoder, SSEDecoder
from swink_testing.chunking import (
    byte_by_byte,
    chunkings,
    cut_at,
    every_cut,
    frame_ends,
    per_frame,
    random_cuts,
    truncations,
    whole,
)

SSE = b"data: a\n\n: ping\n\ndata: b\n\n"

FRAMES: list[tuple[str, bytes, Callable[[], Decoder], list[bytes]]] = [
    ("frames", b"data: a\n\ndata: b\n\n", SSEDecoder, [b"data: a\n\n", b"data: b\n\n"]),
    ("a comment belongs to the frame after it", SSE, SSEDecoder, [SSE[:9], SSE[9:]]),
    (
        "CRLF is not torn apart",
        b"data: a\r\n\r\ndata: b\r\n\r\n",
        SSEDecoder,
        [b"data: a\r\n\r\n", b"data: b\r\n\r\n"],
    ),
    (
        "what follows the last frame",
        b"data: a\n\ndata: b",
        SSEDecoder,
        [b"data: a\n\n", b"data: b"],
    ),
    ("lines", b'{"a":1}\n\n{"b":2}\n', NDJSONDecoder, [b'{"a":1}\n', b'\n{"b":2}\n']),
    ("no frame", b": ping\n\n", SSEDecoder, [b": ping\n\n"]),
    ("nothing", b"", SSEDecoder, []),
]


@pytest.mark.parametrize(
    ("body", "decoder", "pieces"), [row[1:] for row in FRAMES], ids=[row[0] for row in FRAMES]
)
def test_a_body_is_cut_after_each_frame(
    body: bytes, decoder: Callable[[], Decoder], pieces: list[bytes]
) -> None:
    assert per_frame(body, frame_ends(body, decoder)) == pieces


def test_cuts_at_the_same_place_or_the_edges_leave_no_empty_pieces() -> None:
    assert cut_at(b"abc", [3, 1, 1, 0]) == [b"a", b"bc"]


def test_every_cut_is_made_once() -> None:
    assert list(every_cut(b"abc")) == [[b"a", b"bc"], [b"ab", b"c"]]


@pytest.mark.parametrize(("body", "pieces"), [(b"ab", [b"ab"]), (b"", [])])
def test_a_whole_body_is_one_piece_or_none(body: bytes, pieces: list[bytes]) -> None:
    assert whole(body) == pieces


def test_bytes_are_pieces() -> None:
    assert byte_by_byte(b"abc") == [b"a", b"b", b"c"]


@given(st.binary(max_size=50), st.integers(), st.integers(0, 60))
def test_random_cuts_are_as_many_as_fit_and_repeatable(body: bytes, seed: int, cuts: int) -> None:
    pieces = random_cuts(body, seed, cuts)

    assert b"".join(pieces) == body
    assert len(pieces) == min(cuts + 1, len(body))
    assert random_cuts(body, seed, cuts) == pieces


@given(st.lists(st.sampled_from([b"data: a\n\n", b"data: b\r\n\r\n", b": c\n\n", b"x"])))
def test_every_chunking_joins_to_the_body_and_has_a_name(parts: list[bytes]) -> None:
    body = b"".join(parts)

    named = dict(chunkings(body, SSEDecoder))

    assert {b"".join(pieces) for pieces in named.values()} == {body}
    assert {"whole", "byte by byte", "per frame"} < set(named)


def test_a_short_body_is_truncated_before_its_first_frame_and_after_every_one() -> None:
    body = b"data: a\n\ndata: b\n\n"

    cut = list(truncations(body, frame_ends(body, SSEDecoder)))

    assert cut == [(0, b""), (1, b"data: a\n\n"), (2, body)]


def test_a_long_body_is_truncated_at_the_limit_of_places_and_at_its_end() -> None:
    body = b"data: a\n\n" * 200
    ends = frame_ends(body, SSEDecoder)

    cut = list(truncations(body, ends, seed=3))

    assert len(cut) == 64
    assert [t.frames for t in cut[-2:]] == [199, 200]
    assert [t.frames for t in cut] == sorted({t.frames for t in cut})
    assert all(len(t.body) == 9 * t.frames for t in cut)
    assert list(truncations(body, ends, seed=3)) == cut
    assert list(truncations(body, ends, seed=4)) != cut


def test_sixty_four_frames_are_all_cut() -> None:
    body = b"data: a\n\n" * 64

    assert len(list(truncations(body, frame_ends(body, SSEDecoder)))) == 65

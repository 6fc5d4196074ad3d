"""Events with names, and answers that are plain text, cut anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core.framing import FrameError, FrameTooLong, SSEDecoder, TextDecoder

NAMED = b"""\
: hello

event: output
id: 1:0
data: Blue

event: output
data: two
data:  lines

data: {"plain": 1}

event: empty

event: done\r
data: {}\r
\r
"""

FRAMES = [
    b"output\nBlue", b"output\ntwo\n lines", b'message\n{"plain": 1}', b"done\n{}",
]  # fmt: skip


def fed(make: Callable[[], SSEDecoder | TextDecoder], pieces: Iterable[bytes]) -> list[bytes]:
    decoder = make()
    return [frame for piece in pieces for frame in decoder.feed(piece)] + list(decoder.finish())


def cuts_of(data: bytes) -> Iterable[list[bytes]]:
    yield [data]
    yield [bytes([byte]) for byte in data]
    yield from ([data[:cut], data[cut:]] for cut in range(len(data)))


def test_a_frame_has_its_events_name_however_it_is_cut() -> None:
    for pieces in cuts_of(NAMED):
        assert fed(SSEDecoder.named, pieces) == FRAMES


def test_a_name_does_not_outlive_its_event() -> None:
    assert fed(SSEDecoder.named, [b"event: x\n\ndata: a\n\n"]) == [b"message\na"]


def test_a_named_frame_has_the_same_limit() -> None:
    with pytest.raises(FrameTooLong):
        SSEDecoder.named(limit=10).feed(b"event: x\ndata: 0123456789\n\n")


def test_the_last_frame_may_lack_its_blank_line() -> None:
    assert fed(SSEDecoder.named, [b"event: x\ndata: a"]) == [b"x\na"]


@given(st.text(), st.data())
def test_text_is_cut_between_characters_and_nothing_of_it_is_lost(
    text: str, data: st.DataObject
) -> None:
    body = text.encode("utf-8", "replace")
    places = data.draw(st.lists(st.integers(0, len(body))))
    pieces = [body[a:b] for a, b in pairwise([0, *sorted(places), len(body)])]
    frames = fed(TextDecoder, pieces)
    assert b"".join(frames) == body
    assert all(frame and frame.decode() for frame in frames)


@pytest.mark.parametrize("body", [b"\xff", b"ok \xc3(", b"\xed\xa0\x80"])
def test_what_is_not_utf8_is_no_text(body: bytes) -> None:
    with pytest.raises(FrameError, match="not UTF-8"):
        fed(TextDecoder, [body])


def test_half_a_character_at_the_end_is_left_out() -> None:
    assert fed(TextDecoder, [b"a\xc3"]) == [b"a"]

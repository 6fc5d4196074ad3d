"""Events with names, and answers that are plain text, cut anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swink_core.framing.frame import DEFAULT_FRAME_LIMIT, FrameError, FrameTooLong
from swink_core.framing.sse import SSEDecoder
from swink_core.framing.text import TextDecoder

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

TEXTS = [
    b'{"type":"output","data":"Blue"}',
    b'{"type":"output","data":"two\\n lines"}',
    b'{"type":"message","data":"{\\"plain\\": 1}"}',
    b'{"type":"done","data":"{}"}',
]

# (name, what comes, the frames)
EVENTS = [
    ("a_name_and_data", b"event: a\ndata: {}\n\n", [b'{"type":"a","data":{}}']),
    ("a_heartbeat", b"event: ping\n\nevent: a\ndata: {}\n\n", [b'{"type":"a","data":{}}']),
    ("its_data_first", b"data: {}\nevent: a\n\n", [b'{"type":"a","data":{}}']),
    ("no_name", b'data: {"type":"x"}\n\n', [b'{"type":"message","data":{"type":"x"}}']),
    ("returns_alone", b"event:a\rdata:{}\r\r", [b'{"type":"a","data":{}}']),
    ("two_lines", b"\xef\xbb\xbfevent: a\r\ndata: [1,\r\ndata: 2]\r\n\r\n",
     [b'{"type":"a","data":[1,\n2]}']),
    ("data_without_a_value", b"event: a\ndata\n\n", [b'{"type":"a","data":null}']),
    ("a_name_to_escape", b'event: "\xc3\xa9\ndata: 1\n\n', [b'{"type":"\\"\xc3\xa9","data":1}']),
    ("a_name_that_is_not_utf8", b"event: \xff\ndata: 1\n\n", [b'{"type":"\xff","data":1}']),
]  # fmt: skip


@pytest.mark.parametrize(("sent", "frames"), [c[1:] for c in EVENTS], ids=[c[0] for c in EVENTS])
def test_events_with_names_are_read_as_their_specification_does(
    sent: bytes, frames: list[bytes]
) -> None:
    for pieces in cuts_of(sent):
        assert fed(SSEDecoder.named, pieces) == frames


# (data as it comes, the frame's)
PLAIN = [(b"caf\xc3\xa9", b'"caf\xc3\xa9"'), (b'"', b'"\\""'), (b"\xff", b'"\xff"'), (b"", b'""')]


@pytest.mark.parametrize(("data", "text"), PLAIN)
def test_plain_text_is_a_json_string_or_no_json_at_all(data: bytes, text: bytes) -> None:
    for pieces in cuts_of(b"event: a\ndata: " + data + b"\n\n"):
        assert fed(SSEDecoder.named_text, pieces) == [b'{"type":"a","data":' + text + b"}"]


@pytest.mark.parametrize("make", [SSEDecoder.named, SSEDecoder.named_text])
def test_a_frame_can_be_written_as_its_event(make: Any) -> None:
    decoder = make()
    for frame in (b'{"type":"a","data":"one\\ntwo"}', b'{"type":"\xc3\xa9","data":"\xc3\xa9"}'):
        assert decoder.as_json(frame) == frame
        assert decoder.feed(decoder.of_json(frame)) == [frame]
    unnamed = decoder.of_json(b'{"data":"x"}')
    assert decoder.feed(unnamed) == [b'{"type":"message","data":"x"}']


def fed(make: Callable[[], SSEDecoder | TextDecoder], pieces: Iterable[bytes]) -> list[bytes]:
    decoder = make()
    return [frame for piece in pieces for frame in decoder.feed(piece)] + list(decoder.finish())


def cuts_of(data: bytes) -> Iterable[list[bytes]]:
    yield [data]
    yield [bytes([byte]) for byte in data]
    yield from ([data[:cut], data[cut:]] for cut in range(len(data)))


def test_a_frame_has_its_events_name_however_it_is_cut() -> None:
    for pieces in cuts_of(NAMED):
        assert fed(SSEDecoder.named_text, pieces) == TEXTS


def test_a_name_does_not_outlive_its_event() -> None:
    sent = b"event: x\n\ndata: a\n\n"
    assert fed(SSEDecoder.named_text, [sent]) == [b'{"type":"message","data":"a"}']


def test_a_named_frame_has_the_same_limit() -> None:
    with pytest.raises(FrameTooLong):
        SSEDecoder.named().feed(b"event: x\ndata: " + b"0" * DEFAULT_FRAME_LIMIT)


def test_the_last_frame_may_lack_its_blank_line() -> None:
    assert fed(SSEDecoder.named, [b"event: x\ndata: 1"]) == [b'{"type":"x","data":1}']


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
def test_invalid_utf8_is_not_text(body: bytes) -> None:
    with pytest.raises(FrameError, match="not UTF-8"):
        fed(TextDecoder, [body])


def test_half_a_character_at_the_end_is_left_out() -> None:
    assert fed(TextDecoder, [b"a\xc3"]) == [b"a"]

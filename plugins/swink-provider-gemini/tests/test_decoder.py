"""Frames, and the bare error that may follow them."""

from __future__ import annotations

import pytest

from swink_core.providers import FrameTooLong
from swink_provider_gemini import wire
from swink_provider_gemini.wire import StreamDecoder
from swink_testing.chunking import every_cut

ERROR = b'{\n "error": {}\n}'

BODIES: list[tuple[str, bytes, list[bytes]]] = [
    ("nothing", b"", []),
    ("events", b"data: {1}\r\n\r\ndata: {2}\r\n\r\n", [b"{1}", b"{2}"]),
    ("events with LF", b"data: {1}\n\ndata: {2}\n\n", [b"{1}", b"{2}"]),
    ("events with CR", b"data: {1}\r\rdata: {2}\r\r", [b"{1}", b"{2}"]),
    ("a last event without its blank line", b"data: {1}\n\ndata: {2}", [b"{1}", b"{2}"]),
    ("comments", b": {\n\ndata: {1}\n\n: [\n\n", [b"{1}"]),
    ("a bare object", ERROR, [ERROR]),
    ("a bare array", b"[" + ERROR + b"]\n", [b"[" + ERROR + b"]"]),
    ("a bare object after events", b"data: {1}\n\n" + ERROR, [b"{1}", ERROR]),
    ("with newlines at its end", b"data: {1}\n\n" + ERROR + b"\n", [b"{1}", ERROR]),
    (
        "with CRLF",
        b"data: {1}\r\n\r\n" + ERROR.replace(b"\n", b"\r\n") + b"\r\n",
        [b"{1}", ERROR],
    ),
    (
        "with a blank line in it",
        b"data: {1}\n\n" + ERROR.replace(b"\n", b"\n\n", 1),
        [b"{1}", ERROR.replace(b"\n", b"\n\n", 1)],
    ),
    ("a brace inside a line begins nothing", b"data: [{\ndata: {}]\n\n", [b"[{\n{}]"]),
]


@pytest.mark.parametrize(("name", "body", "frames"), BODIES, ids=[name for name, *_ in BODIES])
def test_frames_are_the_same_however_the_body_is_cut(
    name: str, body: bytes, frames: list[bytes]
) -> None:
    for chunks in ([body], [body[i : i + 1] for i in range(len(body))], *every_cut(body)):
        decoder = StreamDecoder()
        found = [frame for chunk in chunks for frame in decoder.feed(chunk)]
        assert [*found, *decoder.finish()] == frames


@pytest.mark.parametrize("start", [b"data: ", b"{"])
def test_a_frame_has_a_limit(start: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "FRAME_LIMIT", 100)
    decoder = StreamDecoder()
    with pytest.raises(FrameTooLong) as caught:
        decoder.feed(b"data: {1}\n\n" + start + b"x" * 200)
    assert caught.value.frames == [b"{1}"]


def test_a_report_counts_the_frames_before_it_however_the_body_is_cut() -> None:
    body = b"data: {1}\n\nodd\n\ndata: {2}\n\n{\rodd\n}\n"
    for chunks in ([body], [body[i : i + 1] for i in range(len(body))], *every_cut(body)):
        decoder = StreamDecoder()
        frames = 0
        reported: list[int] = []
        for chunk in chunks:
            completed = len(decoder.feed(chunk))
            reported += [frames + before for before, *_ in decoder.reports]
            decoder.reports.clear()
            frames += completed
        assert reported == [1, 2]

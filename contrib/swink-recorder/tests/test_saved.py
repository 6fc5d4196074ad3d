"""Saved answers become recordings, and so do answers that did not use HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_core.providers import EventWriter, HTTPProvider, NDJSONDecoder
from swink_recorder.capture import Tape
from swink_recorder.recording import Recording
from swink_recorder.saved import saved_answer

BODY = b'data: {"say": "Hi\\r\\n"}\r\n\r\ndata: [DONE]\r\n\r\n'
TYPE = "text/event-stream"

SAVED = [
    ("a body alone", BODY, 200, {"Content-Type": TYPE}),
    ("with a head", b"HTTP/1.1 200 OK\r\nX-A: b: c\r\n\r\n" + BODY, 200, {"X-A": "b: c"}),
    ("as HTTP/2", b"HTTP/2 200 \r\nx-a: b\r\n\r\n" + BODY, 200, {"x-a": "b"}),
    ("pasted, with other line ends", b"\nHTTP/1.1 200 OK\nA: b\n\n" + BODY, 200, {"A": "b"}),
    ("refused", b"HTTP/1.1 429 No\r\nRetry-After: 7\r\n\r\n" + BODY, 429, {"Retry-After": "7"}),
    (
        "behind a proxy and a redirect",
        b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 307 There\r\nLocation: /b\r\n\r\n"
        b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n" + BODY,
        200,
        {"A": "b"},
    ),
    (
        "in chunks that curl has joined",
        b"HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
        + BODY,
        200,
        {"A": "b"},
    ),
]


@pytest.mark.parametrize(
    ("data", "status", "headers"), [r[1:] for r in SAVED], ids=[r[0] for r in SAVED]
)
def test_a_saved_answer_is_read(data: bytes, status: int, headers: dict[str, str]) -> None:
    answer = saved_answer(data, "acme", "large", TYPE)

    assert (answer.body, answer.status, answer.headers) == (BODY, status, headers)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "it has no body"),
        (b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", "it has no body"),
        (b"HTTP/1.1 200 OK\r\nA: b", "it has no body"),
        (b"HTTP/1.1 OK\r\n\r\n" + BODY, "is not a status line"),
        (b"* Trying 127.0.0.1:443\r\n> POST / HTTP/1.1\r\n" + BODY, "curl -v"),
        (b"HTTP/1.1 200 OK\r\n\r\n\x1f\x8b\x08\x00", "compressed"),
    ],
)
def test_a_file_without_an_answer_is_reported(data: bytes, words: str) -> None:
    with pytest.raises(swink.UsageError, match=words) as caught:
        saved_answer(data, "acme", "large", TYPE)

    assert caught.value.resolution


# -- what came over no HTTP ----------------------------------------------------------------------


class Words:
    def feed(self, frame: bytes, out: EventWriter) -> None:
        if frame == b'"end"':
            out.stop(swink.StopReason.STOP)
        else:
            out.text(frame.decode())


class Process(HTTPProvider):
    """Its bytes come from elsewhere."""

    decoder = NDJSONDecoder
    speaks_http = False
    content_types = ("application/x-ndjson",)
    said = b'"one"\n"end"\n'

    def parser(self, model: swink.Model) -> Words:
        return Words()

    def convert(self, model: Any, context: Any, options: Any) -> Any:
        return {}

    def exchange(self, x: Any) -> AsyncIterator[bytes]:
        return self._said()

    async def _said(self) -> AsyncIterator[bytes]:
        for piece in (self.said[:3], self.said[3:]):
            yield piece


class Entry:
    name, group, value, dist = "process", "swink.providers", f"{__name__}:Process", None

    def load(self) -> type[Process]:
        return Process


async def test_output_of_a_child_process_is_recorded(tmp_path: Path) -> None:
    async with swink.Client(host=swink.Host(entry_points=[Entry()], environ={})) as client:
        stream = client.stream("process/any", "Hi", base_url="http://process.invalid")
        tape = Tape(stream.call)
        async with stream:
            async for _ in stream:
                pass
        tape.recording(stream.message).save(tmp_path / "kept")

    kept = Recording.load(tmp_path / "kept")
    assert (kept.body, [size for _, size in kept.chunks]) == (Process.said, [3, 9])
    assert (kept.status, kept.body_file) == (200, "body.ndjson")
    assert kept.message is not None
    assert kept.message.stop_reason == "stop"

"""What a parser does for an answer grows with the answer, and no faster.

Each answer is read at one size and at eight times that size. Work that is linear takes eight
times as long, give or take; work that is quadratic takes sixty-four times.
"""

from __future__ import annotations

import base64
import gc
import struct
import time
import zlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from swink_core.providers import EventWriter, Parser
from swink_provider_anthropic.parser import MessagesParser
from swink_provider_bedrock.parser import ConverseParser
from swink_provider_gemini.parser import GenerateContentParser
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.parser import ChatParser
from swink_provider_openai.responses.parser import ResponsesParser

TIMES = 8
MOST = 30

_json = msgspec.json.encode


def _converse(kind: str, data: Any) -> bytes:
    named = {":message-type": "event", ":event-type": kind}
    headers = b"".join(
        struct.pack(f">B{len(name)}sBH", len(name), name.encode(), 7, len(value)) + value.encode()
        for name, value in named.items()
    )
    body = _json(data)
    lengths = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    frame = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + body
    return frame + struct.pack(">I", zlib.crc32(frame))


def _delta(data: Any) -> bytes:
    return _converse("contentBlockDelta", {"contentBlockIndex": 0, "delta": data})


def _begun(start: Any) -> bytes:
    return _converse("contentBlockStart", {"contentBlockIndex": 0, "start": start})


CONVERSE_STOP = _converse("contentBlockStop", {"contentBlockIndex": 0})
LONG = "x" * 400


def _cites(start: int, stop: int) -> dict[str, Any]:
    sources = [{"uri": f"https://example.com/{n}"} for n in range(start, stop)]
    return {"candidates": [{"index": 0, "citationMetadata": {"citationSources": sources}}]}


def _gemini_cited_text(n: int) -> list[bytes]:
    part = {"parts": [{"text": "x"}]}
    return [
        _json({"candidates": [{**_cites(at, at + 1)["candidates"][0], "content": part}]})
        for at in range(n)
    ]


def _opaque(n: int) -> list[bytes]:
    cited = {"type": "citations_delta", "citation": {"url": "https://example.com"}}
    return [
        _json({"type": "content_block_start", "index": 0, "content_block": {"type": "new"}}),
        *[_json({"type": "content_block_delta", "index": 0, "delta": cited})] * n,
        _json({"type": "content_block_stop", "index": 0}),
    ]


def _counts(n: int) -> list[bytes]:
    return [_json({"type": "message_delta", "usage": {f"count_{at}": at}}) for at in range(n)]


def _thoughts_in_space(n: int) -> list[bytes]:
    return [_json({"choices": [{"index": 0, "delta": {"content": " " * 400}}]})] * n


def _said_again(n: int) -> list[bytes]:
    item = {"type": "message", "id": "m"}
    said = {"output_index": 0, "content_index": 0}
    return [
        _json({"type": "response.output_item.added", "output_index": 0, "item": item}),
        *[
            _json({"type": f"response.output_text.{kind}", **said, **text})
            for _ in range(n)
            for kind, text in (("delta", {"delta": LONG}), ("done", {"text": "x"}))
        ],
    ]


def _items_by_id(n: int) -> list[bytes]:
    kinds = ("response.output_item.added", "response.output_item.done")
    items = [{"type": "web_search_call", "id": f"ws_{at}"} for at in range(n)]
    return [_json({"type": kind, "item": item}) for kind in kinds for item in items]


def _bedrock(start: Any, delta: Any) -> Callable[[int], list[bytes]]:
    begun = [] if start is None else [_begun(start)]
    return lambda n: [*begun, *[_delta(delta)] * n, CONVERSE_STOP]


BYTES = base64.b64encode(LONG.encode()).decode()
RESULT = {"toolResult": [{"text": "x"}]}

ROWS: list[tuple[str, Callable[[], Parser], Callable[[int], list[bytes]], int]] = [
    ("gemini citations in a frame", GenerateContentParser, lambda n: [_json(_cites(0, n))], 500),
    ("gemini citations in turn", GenerateContentParser, _gemini_cited_text, 1000),
    ("anthropic citations of a new block", MessagesParser, _opaque, 2000),
    ("anthropic counts", MessagesParser, _counts, 500),
    ("bedrock results", ConverseParser, _bedrock({"toolResult": {}}, RESULT), 2000),
    ("bedrock signature", ConverseParser,
     _bedrock(None, {"reasoningContent": {"signature": LONG}}), 2000),
    ("bedrock hidden reasoning", ConverseParser,
     _bedrock(None, {"reasoningContent": {"redactedContent": BYTES}}), 500),
    ("bedrock image", ConverseParser,
     _bedrock({"image": {}}, {"image": {"source": {"bytes": BYTES}}}), 2000),
    ("openai space before reasoning", lambda: ChatParser(Dialect(think_tags=True)),
     _thoughts_in_space, 2000),
    ("responses text said again", ResponsesParser, _said_again, 1000),
    ("responses items without an index", ResponsesParser, _items_by_id, 500),
]  # fmt: skip


def _seconds(parser: Callable[[], Parser], frames: list[bytes]) -> float:
    """Return the least CPU time of this thread for an answer, of three."""
    taken = []
    for _ in range(3):
        feed, out = parser().feed, EventWriter()
        gc.collect()
        gc.disable()
        try:
            began = time.thread_time()
            for frame in frames:
                feed(frame, out)
            taken.append(time.thread_time() - began)
        finally:
            gc.enable()
    return min(taken)


@pytest.mark.parametrize(
    ("parser", "frames", "count"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_eight_times_the_answer_is_about_eight_times_the_work(
    parser: Callable[[], Parser], frames: Callable[[int], list[bytes]], count: int
) -> None:
    once, more = _seconds(parser, frames(count)), _seconds(parser, frames(TIMES * count))
    assert more < MOST * once

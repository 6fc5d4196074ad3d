"""The fence around a typed answer, over loopback."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass

import pytest

import swink


@dataclass
class Answer:
    a: int


async def ask(text: str) -> Answer:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r")[0]))
        kind = b"Content-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + kind)
        for delta, reason in (({"content": text}, None), ({}, "stop")):
            chunk = {"choices": [{"delta": delta, "finish_reason": reason}]}
            writer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, swink.Client() as client:
        reply = await client.answer(
            "openai/gpt-4o", "x", type=Answer, base_url=url, api_key="k" * 20
        )
    parsed: Answer = reply.parsed
    return parsed


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '```json\n{"a": 1}\n```',
        '```\n{"a": 1}\n```\n',
        ' \n```json\n\n{"a": 1}\n  ``` ',
        '```json\n{"a": 1}',
    ],
)
async def test_a_fence_is_removed(text: str) -> None:
    assert await ask(text) == Answer(1)


def test_newlines_after_a_fenced_answer_cost_no_more_than_without_the_fence() -> None:
    """Quadratic work would take about a thousand times as long, on any machine."""

    def seconds(text: str) -> float:
        times = []
        for _ in range(3):
            begun = time.process_time()
            assert asyncio.run(ask(text)) == Answer(1)
            times.append(time.process_time() - begun)
        return min(times)

    newlines = "\n" * 80_000
    assert seconds('```json\n{"a": 1}' + newlines) < 50 * seconds('{"a": 1}' + newlines)

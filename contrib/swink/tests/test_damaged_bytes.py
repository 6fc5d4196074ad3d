"""Damaged bytes from a provider, over loopback: damage is reported, and never freezes the loop."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import msgspec
import pytest

import swink_core
from swink_core import Done, Error, Event, Notice

DONE = b"data: [DONE]\n\n"
NONE = swink_core.RetryPolicy.none()
DEEP = '{"a":' + "[" * 340 + "]" * 340 + "}"


def piece(delta: object = None, reason: str | None = None, **fields: object) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": reason}
    chunk = {"id": "c1", "model": "m", "choices": [choice], **fields}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


END = [piece(reason="stop"), DONE]


async def answer(frames: Iterable[bytes]) -> tuple[list[Event], swink_core.AssistantMessage]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            line.split(b":")[1]
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length:")
        )
        await reader.readexactly(int(length))
        kind = b"Content-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n" + kind + b"".join(frames))
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    options = {"base_url": url, "api_key": "k" * 20, "retry": NONE}
    async with server, swink_core.Client() as client:
        async with client.stream("openai/gpt-4o", "x", **options) as stream:
            events = [event async for event in stream]
        return events, stream.message


def notices(events: list[Event]) -> list[str]:
    codes = [event.code for event in events if isinstance(event, Notice)]
    return [code for code in codes if code != "model_retires"]


NOT = piece({"content": "NOT "})


@pytest.mark.parametrize(
    "damaged",
    [
        NOT.replace(b'"content"', b'"con\xf4ent"'),
        NOT.replace(b'"delta"', b'"d\xe5lta"'),
        NOT.replace(b'"choices"', b'"ch\xefices"'),
        NOT.replace(b"NOT", b"N\xcfT"),
        NOT.replace(b'"NOT "', b"5"),
        piece({"content": "NOT "}, unknown=json.loads("[" * 600 + "]" * 600)),
        piece({"content": "NOT "}, usage=json.loads(DEEP)),
    ],
    ids=["content", "delta", "choices", "text", "type", "deep_field", "deep_usage"],
)
async def test_a_damaged_frame_ends_the_answer_as_damaged(damaged: bytes) -> None:
    events, _ = await answer([piece({"content": "Do "}), damaged, *END])
    assert isinstance(events[-1], Error)
    assert events[-1].rule == "core:damaged_frame"


@pytest.mark.parametrize("damaged", [b"e" + NOT[1:], b"event: x\x0b" + NOT, b"id: 1*" + NOT])
async def test_a_line_whose_data_is_lost_is_reported(damaged: bytes) -> None:
    events, message = await answer([piece({"content": "Do "}), damaged, *END])
    assert (message.text, notices(events)) == ("Do ", ["unknown_field"])
    assert isinstance(events[-1], Done)


async def test_deep_tool_arguments_are_invalid_and_keep_their_text() -> None:
    call = {"index": 0, "id": "i", "function": {"name": "f", "arguments": DEEP}}
    events, message = await answer([piece({"tool_calls": [call]}), *END])
    block = message.tool_calls[0]
    assert isinstance(events[-1], Done)
    assert (block.state, block.arguments, block.raw_arguments) == ("invalid", {}, DEEP)
    assert swink_core.load(swink_core.AssistantMessage, swink_core.dump(message)) == message


OPEN_ARRAY = '{"a":[' + "[]," * 40_000
MANY = 2_000


def strays_after(arguments: str, texts: list[str]) -> list[bytes]:
    """Return an answer whose one named call is followed by a fragment for each other index."""
    function = {"name": "f", "arguments": arguments}
    opening = piece({"tool_calls": [{"index": 0, "id": "c", "function": function}]})
    strays = [
        piece({"tool_calls": [{"index": number, "function": {"arguments": text}}]})
        for number, text in enumerate(texts, 1)
    ]
    return [opening, *strays, *END]


@pytest.mark.parametrize("tail", ["1", "]}", "]]}", "1]}"])
async def test_stray_fragments_parse_long_arguments_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch, tail: str
) -> None:
    parsed = 0

    def counting(decode: Callable[..., Any]) -> Callable[..., Any]:
        def counted(text: Any, *args: Any, **options: Any) -> Any:
            nonlocal parsed
            parsed += len(text)
            return decode(text, *args, **options)

        return counted

    for module, name in ((json, "loads"), (msgspec.json, "decode")):
        monkeypatch.setattr(module, name, counting(getattr(module, name)))
    events, message = await answer(strays_after(OPEN_ARRAY, [tail] * 64))
    assert isinstance(events[-1], Done)
    assert (message.tool_calls[0].raw_arguments or "").startswith(OPEN_ARRAY)
    assert len(OPEN_ARRAY) < parsed < 16 * len(OPEN_ARRAY)


def lines_run(frames: list[bytes]) -> int:
    """Count the lines of Python that an answer runs."""
    lines = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        asyncio.run(answer(frames))
    finally:
        sys.settrace(before)
    return lines


def test_every_stray_fragment_costs_the_same_work() -> None:
    lines_run(strays_after("", []))  # imports
    base = lines_run(strays_after('{"a":[', []))
    few = lines_run(strays_after('{"a":[', ["]"] * (MANY // 4))) - base
    many = lines_run(strays_after('{"a":[', ["]"] * MANY)) - base
    assert many < 6 * few, (base, few, many)


async def test_a_stray_fragment_still_completes_the_call_that_it_ends() -> None:
    function = {"name": "f", "arguments": '{"a": "b'}
    opening = piece({"tool_calls": [{"index": 0, "id": "c", "function": function}]})
    stray = piece({"tool_calls": [{"index": 1, "function": {"arguments": '"}'}}]})
    _, message = await answer([opening, stray, *END])
    assert [call.arguments for call in message.tool_calls] == [{"a": "b"}]

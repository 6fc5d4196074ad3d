"""Measure the cost of a delta without a network: `python -m lab.benchmarks.in_memory [--json
FILE]`.

Answers come from memory, so that formats, kinds of deltas, observers and lengths can be compared
where nothing else moves. Contenders take turns within a round, a ratio is taken within a round,
and the median and the spread are printed, as in `lab.benchmarks.run`; each text is compared with
what was sent.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

import swink_core as swink
from lab.benchmarks import conversations as agents
from lab.benchmarks.formats import FORMATS, SSE, Format
from lab.benchmarks.ratios import with_spread, within_rounds
from lab.benchmarks.resident import resident
from lab.benchmarks.server import TOKENS, WRITE_SIZE, expected_text, frames
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

DELTAS = 10_000

CALLS = 20
"""Calls with a conversation in one turn."""

OWN: dict[str, dict[str, Any]] = {
    "openai": {"api_key": "sk-bench"},
    "anthropic": {"api_key": "sk-bench"},
    "gemini": {"api_key": "sk-bench"},
    "cohere": {"api_key": "sk-bench"},
    "deepseek": {"api_key": "sk-bench"},
    "bedrock": {"api_key": "sk-bench", "settings": {"region": "us-east-1"}},
}

Turn = Callable[[], Awaitable[str]]


class _Observer:
    @swink.hookimpl
    def on_event(self, event: Any) -> None:
        pass


def _client(pieces: list[bytes], content_type: str, observers: int = 0) -> swink.Client:
    class Memory(MemoryHTTPClient):
        async def send(self, request: Any, connect_timeout: float | None) -> MemoryResponse:
            return MemoryResponse(pieces, headers={"Content-Type": content_type})

    plugins = [_Observer() for _ in range(observers)]
    return swink.Client(http=Memory(), providers=OWN, plugins=plugins)


async def _text(client: swink.Client, model: str, read_every: int = 0) -> str:
    parts: list[str] = []
    async with client.stream(model, "hi") as stream:
        async for event in stream:
            if isinstance(event, swink.TextDelta):
                parts.append(event.delta)
                if read_every and len(parts) % read_every == 0:
                    assert stream.message.text
    return "".join(parts)


async def _compare(turns: dict[str, Turn], rounds: int, text: str | None) -> dict[str, list[float]]:
    """Return the CPU seconds of each turn, by its name, one a round."""
    took: dict[str, list[float]] = {name: [] for name in turns}
    for number in range(rounds + 1):
        for name, turn in turns.items():
            gc.collect()
            start = time.process_time()
            said = await turn()
            if number:  # the first is for warming up
                took[name].append(time.process_time() - start)
            if text is not None and said != text:
                raise AssertionError(f"{name}: the text is not what was sent")
    return took


async def formats(rounds: int) -> dict[str, list[float]]:
    """Return swink's cost for each wire format, relative to the floor."""
    ratios = {}
    for each in FORMATS:
        pieces = each.pieces(DELTAS)
        async with _client(pieces, each.content_type) as client:

            async def floor(each: Format = each, pieces: list[bytes] = pieces) -> str:
                return each.floor(pieces)

            async def ours(each: Format = each, client: swink.Client = client) -> str:
                return await _text(client, each.model)

            took = await _compare({"floor": floor, "swink": ours}, rounds, expected_text(DELTAS))
        ratios[each.name] = within_rounds(took["swink"], took["floor"])
    return ratios


async def conversations(rounds: int) -> dict[str, list[float]]:
    """Return the cost of a call by protocol, messages and deltas, in floors.

    The floor encodes the same body once and reads the same bytes.
    """
    ratios = {}
    for name, protocol in agents.PROTOCOLS.items():
        http = agents.Answering(protocol)
        async with swink.Client(http=http, providers=agents.PROVIDERS) as client:
            for size in agents.SIZES:
                context = agents.conversation(size)
                for http.deltas in agents.DELTAS:
                    await agents.read(client, protocol, context)
                    body, pieces = orjson.loads(http.body), protocol.pieces(http.deltas)

                    async def floor(
                        protocol: Format = protocol, body: Any = body, pieces: list[bytes] = pieces
                    ) -> str:
                        for _ in range(CALLS - 1):
                            agents.floor(protocol, body, pieces)
                        return agents.floor(protocol, body, pieces)

                    async def ours(
                        client: swink.Client = client,
                        protocol: Format = protocol,
                        context: swink.Context = context,
                    ) -> str:
                        for _ in range(CALLS - 1):
                            await agents.read(client, protocol, context)
                        return await agents.read(client, protocol, context)

                    text = expected_text(http.deltas)
                    took = await _compare({"floor": floor, "swink": ours}, rounds, text)
                    ratios[f"{name}-{size}-{http.deltas}"] = within_rounds(
                        took["swink"], took["floor"]
                    )
    return ratios


def _deltas(kind: str) -> list[bytes]:
    """Return an answer of Chat Completions whose deltas are of a kind, all about as long."""
    first, *_, stop, usage, done = frames(1)
    made = []
    for number in range(DELTAS):
        token = TOKENS[number % len(TOKENS)]
        said = {"arguments": "1"}
        if not number:
            said = {"name": "add", "arguments": '{"a": 1'}
        call: dict[str, Any] = {"index": 0, "function": said}
        if not number:
            call |= {"id": "call_1", "type": "function"}
        of_kind: dict[str, dict[str, Any]] = {
            "text": {"content": token},
            "thinking": {"reasoning_content": token},
            "tool call": {"tool_calls": [call]},
        }
        delta = of_kind[kind]
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
        chunk = {**orjson.loads(first[6:]), "choices": [choice]}
        made.append(b"data: %b\n\n" % orjson.dumps(chunk))
    if kind == "tool call":
        stop = stop.replace(b'"stop"', b'"tool_calls"')
    if kind == "thinking":
        stop = frames(1)[1] + stop
    body = b"".join((first, *made, stop, usage, done))
    return [body[start : start + WRITE_SIZE] for start in range(0, len(body), WRITE_SIZE)]


async def kinds(rounds: int) -> dict[str, list[float]]:
    """Return the cost of thinking and tool-call deltas, relative to text deltas."""
    names = ("text", "thinking", "tool call")
    clients = {name: _client(_deltas(name), SSE) for name in names}

    def turn(name: str) -> Turn:
        async def read() -> str:
            async with clients[name].stream("deepseek/deepseek-v4", "hi", rules=False) as stream:
                message = await _read(stream)
            calls = [call.raw_arguments for call in message.tool_calls]
            return str(message.text or message.thinking or calls)

        return read

    took = await _compare({name: turn(name) for name in names}, rounds, None)
    return {name: within_rounds(took[name], took["text"]) for name in names[1:]}


async def _read(stream: swink.EventStream) -> swink.AssistantMessage:
    async for _ in stream:
        pass
    return stream.message


async def observers(rounds: int) -> dict[str, list[float]]:
    """Return the cost of observers that do nothing: one, and each further one, relative to the
    floor.
    """
    chat = FORMATS[0]
    pieces = chat.pieces(DELTAS)
    turns: dict[str, Turn] = {}

    async def floor() -> str:
        return chat.floor(pieces)

    def turn(count: int) -> Turn:
        client = _client(pieces, SSE, count)

        async def read() -> str:
            return await _text(client, chat.model)

        return read

    turns = {"floor": floor, **{str(count): turn(count) for count in (0, 1, 6)}}
    took = await _compare(turns, rounds, expected_text(DELTAS))
    further = [(six - one) / 5 for one, six in zip(took["1"], took["6"], strict=True)]
    return {
        "with one observer": within_rounds(took["1"], took["floor"]),
        "each further one": within_rounds(further, took["floor"]),
    }


async def growth(rounds: int) -> dict[str, list[float]]:
    """Return the cost of one of 100,000 deltas, relative to one of 1,000, also with the message
    read.
    """
    small, large = FORMATS[0].pieces(1_000), FORMATS[0].pieces(100_000)
    few, many = _client(small, SSE), _client(large, SSE)

    async def short() -> str:
        for _ in range(99):
            await _text(few, FORMATS[0].model)
        return await _text(few, FORMATS[0].model)

    async def long() -> str:
        return await _text(many, FORMATS[0].model)

    async def watched() -> str:
        return await _text(many, FORMATS[0].model, read_every=100)

    took = await _compare({"short": short, "long": long, "watched": watched}, rounds, None)
    return {
        "100,000 deltas over 1,000": within_rounds(took["long"], took["short"]),
        "the message read every 100": within_rounds(took["watched"], took["long"]),
    }


async def memory() -> dict[str, list[float]]:
    """Return the megabytes that a stream of 100,000 deltas holds at most, beyond its text."""
    pieces = FORMATS[0].pieces(100_000)
    async with _client(pieces, SSE) as client:
        await _text(client, FORMATS[0].model)
        gc.collect()
        tracemalloc.start()
        async with client.stream(FORMATS[0].model, "hi") as stream:
            message = await _read(stream)
        text = len(message.text.encode())
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return {"MB beyond the text of 100,000 deltas": [(most - text) / 1e6]}


async def flat(streams: int) -> dict[str, list[float]]:
    """Return the growth after that many consecutive streams: MB, tasks, descriptors."""
    async with _client(FORMATS[0].pieces(3), SSE) as client:

        def held() -> tuple[float, int, int]:
            gc.collect()
            return resident(), len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))

        for _ in range(streams // 10):
            await _text(client, FORMATS[0].model)
            await asyncio.sleep(0)
        before = held()
        for _ in range(streams):
            await _text(client, FORMATS[0].model)
            await asyncio.sleep(0)  # the loop sweeps timers up that were cancelled
        after = held()
    names = ("MB", "tasks", "descriptors")
    return {f"{n} left": [float(b - a)] for n, a, b in zip(names, before, after, strict=True)}


async def _all(rounds: int, streams: int) -> dict[str, dict[str, list[float]]]:
    gc.collect()
    gc.freeze()
    return {
        "formats": await formats(rounds),
        "conversations": await conversations(rounds),
        "kinds": await kinds(rounds),
        "observers": await observers(rounds),
        "growth": await growth(max(1, rounds // 3)),
        "memory": await memory(),
        "flat": await flat(streams),
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.in_memory", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--streams", type=int, default=10_000, help="one after the other")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args()
    found = asyncio.run(_all(options.rounds, options.streams))
    for group, rows in found.items():
        for name, values in rows.items():
            print(f"{group:10} {name:40} {with_spread(values, 3)}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

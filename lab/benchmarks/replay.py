"""Calls whose work never varies: `python -m lab.benchmarks.replay KIND COUNT [PLANT]`.

The answers come from memory, so that nothing but the client's own work is left to count; see
`lab.benchmarks.instructions`, which counts it. PLANT names what is made slower on purpose, to show
that it is noticed: `writer` or `decoder`.

    burst    COUNT answers of 2,000 deltas, as many frames a read as 64 KiB hold
    paced    COUNT answers of 200 deltas, one frame a read
    request  COUNT answers of 3 deltas, each one read
    nothing  no answer: what the start alone takes

    chat-31-300  each conversation of Chat Completions once, then COUNT answers of 300 deltas to
                 the one of 31 messages and 8 tools; likewise for each name in `CONVERSATIONS`
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from lab.benchmarks import conversations
from lab.benchmarks.conversations import PROTOCOLS, PROVIDERS, SIZES, Answering, conversation, read
from lab.benchmarks.server import WRITE_SIZE, expected_text, frames
from swink_core import Client
from swink_core.framing.sse import SSEDecoder
from swink_core.providers import EventWriter
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

DELTAS = {"burst": 2_000, "paced": 200, "request": 3}

HEAD = {"Content-Type": "text/event-stream"}

CONVERSATIONS = {
    f"{protocol}-{size}-{deltas}": (protocol, size, deltas)
    for protocol in PROTOCOLS
    for size in SIZES
    for deltas in conversations.DELTAS
}
"""The protocol, the messages and the deltas of each conversation, by its name."""


def reads(kind: str) -> list[bytes]:
    """Return an answer as the reads of a kind cut it."""
    parts = frames(DELTAS[kind])
    if kind == "paced":
        return list(parts)
    body = b"".join(parts)
    return [body[start : start + WRITE_SIZE] for start in range(0, len(body), WRITE_SIZE)]


async def replay(kind: str, count: int) -> None:
    """Read so many answers, one after the other, and check each text."""
    pieces = reads(kind)

    class Memory(MemoryHTTPClient):
        async def send(self, request: Any, connect_timeout: float | None) -> MemoryResponse:
            return MemoryResponse(pieces, headers=HEAD)

    own = {"openai": {"api_key": "sk-bench", "base_url": "http://replay.invalid/v1"}}
    async with Client(http=Memory(), providers=own) as client:
        for _ in range(count):
            async with client.stream("openai/gpt-4o", "hi") as stream:
                async for _ in stream:
                    pass
            if stream.message.text != expected_text(DELTAS[kind]):
                raise AssertionError(f"{kind}: the text is not what was sent")


async def converse(kind: str, count: int) -> None:
    """Make each call of a protocol once, then `count` calls of one kind; check each text.

    The first calls warm up the caches, so the calls that are counted find them as in a program
    that runs for long.
    """
    protocol, *_ = CONVERSATIONS[kind]
    wire = PROTOCOLS[protocol]
    contexts = {size: conversation(size) for size in SIZES}
    warm = [name for name, (other, *_) in CONVERSATIONS.items() if other == protocol]
    http = Answering(wire)
    async with Client(http=http, providers=PROVIDERS) as client:
        for name in [*warm, *[kind] * count]:
            _, size, http.deltas = CONVERSATIONS[name]
            if await read(client, wire, contexts[size]) != expected_text(http.deltas):
                raise AssertionError(f"{name}: the text is not what was sent")


def _plant(where: str) -> None:
    """Make a part slower, by about a twentieth of what a delta takes."""
    owner: Any = {"writer": EventWriter, "decoder": SSEDecoder}[where]
    name = {"writer": "text", "decoder": "feed"}[where]
    honest = getattr(owner, name)

    def slower(self: Any, data: Any) -> Any:
        for _ in range(len(data) // 55 if where == "decoder" else 0):
            pass
        return honest(self, data)

    setattr(owner, name, slower)


if __name__ == "__main__":
    kind, count, *plants = sys.argv[1:]
    for plant in plants:
        _plant(plant)
    if kind in CONVERSATIONS:
        asyncio.run(converse(kind, int(count)))
    elif kind != "nothing":
        asyncio.run(replay(kind, int(count)))

"""Many clients that read slowly, disconnect, or wait for a hanging upstream leave nothing behind.

The clients use every protocol, including WebSockets. Tasks, file descriptors and Python's memory
must be the same before the clients connect and after they have disconnected, except for the caches
and pools that a first few fill. While connected, each client takes a bounded amount of memory.
`SWINK_GATEWAY_CROWD` is the number of clients (20; 1,000 in `make clients`).
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from statistics import median
from typing import Any

import msgspec
import pytest
from attrs import define
from serving import serving, until
from test_bounds import Hanging
from test_keepalive import SIGNS
from test_responses_socket import CREATE
from test_seed_scenarios import open_slowly

import swink_core as swink
from swink_gateway.serving.admission import ACTIVE, PEAK
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.relay import BACKPRESSURE
from swink_gateway.serving.server import Gateway
from swink_recorder.loopback import Exchange, LoopbackServer

FULL = 1000
FEW = 10
CROWD = int(os.environ.get("SWINK_GATEWAY_CROWD", "20"))

MOST_OF_EACH = 2 * 1024 * 1024
"""The limit for Python's memory per client in bytes.

It includes the client's queue, the answer so far, and the client's end of the connection, which is
in this process.
"""

LEFT_OVER = 64 * 1024 + 2 * 1024 * CROWD
"""The tolerance in bytes.

It covers hash tables that have grown (of tasks, connections and descriptors), and cancelled timers,
which the event loop removes when they are due. A leaked connection takes ten times as much.
"""

PATIENCE = 3600.0
"""Seconds: no client is disconnected because the machine is slow."""

DESCRIPTORS = "/proc/self/fd"

Client = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Endless:
    """An endless upstream; `listeners` counts the clients that read it."""

    def __init__(self) -> None:
        self.listeners = 0

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        return self._talk()

    async def _talk(self) -> AsyncIterator[Any]:
        self.listeners += 1
        try:
            yield swink.Start()
            yield swink.TextStart(0)
            while True:
                yield swink.TextDelta(0, "word " * 2000)
                await asyncio.sleep(0)
        finally:
            self.listeners -= 1


@define
class Held:
    """The resources of the process."""

    tasks: int
    descriptors: int
    memory: int

    @classmethod
    def now(cls) -> Held:
        gc.collect()
        descriptors = len(os.listdir(DESCRIPTORS)) if os.path.isdir(DESCRIPTORS) else 0
        return cls(len(asyncio.all_tasks()), descriptors, tracemalloc.get_traced_memory()[0])


def posted(path: str, body: Any) -> bytes:
    """Return a request after which the connection closes."""
    data = msgspec.json.encode(body)
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def framed(body: Any) -> bytes:
    """Return a text frame of a WebSocket with a zero mask (RFC 6455)."""
    data = msgspec.json.encode(body)
    assert len(data) < 126
    return bytes([0x81, 0x80 | len(data), 0, 0, 0, 0]) + data


SOCKET = "responses over a WebSocket"

HANDSHAKE = (
    b"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
    b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


ASKED = {
    **{name: posted(path, body) for name, (path, body, _) in SIGNS.items()},
    SOCKET: framed(CREATE),
}
"""The bytes that a client of each protocol sends."""


async def come(gateway: Gateway, protocol: str) -> Client:
    """Send a request, and read nothing yet but the end of a handshake."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    if protocol == SOCKET:
        writer.write(HANDSHAKE)
        assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    writer.write(ASKED[protocol])
    return reader, writer


async def slow(gateway: Gateway, upstream: Any, crowd: int, protocol: str) -> None:
    """Connect, read nothing, and disconnect."""
    clients = [await come(gateway, protocol) for _ in range(crowd)]
    await until(lambda: gateway.counters[BACKPRESSURE] >= crowd)
    await leave(gateway, upstream, clients)


async def vanishing(gateway: Gateway, upstream: Any, crowd: int, protocol: str) -> None:
    """Connect one after the other, read a little, and disconnect."""
    for number in range(crowd):
        reader, writer = await come(gateway, protocol)
        if number % 2:
            await reader.read(100)
        writer.transport.abort()
    await leave(gateway, upstream, [])


async def waiting(gateway: Gateway, upstream: Any, crowd: int, protocol: str) -> None:
    """Connect, wait, and disconnect."""
    clients = [await come(gateway, protocol) for _ in range(crowd)]
    await until(lambda: gateway.counters[ACTIVE] == crowd)
    await upstream.reached(crowd)
    await leave(gateway, upstream, clients)


async def leave(gateway: Gateway, upstream: Any, clients: list[Client]) -> None:
    held = tracemalloc.get_traced_memory()[0]
    for _, writer in clients:
        writer.transport.abort()
    clients.clear()
    at = "waiting" if isinstance(upstream, Hanging) else "listeners"
    await until(lambda: not gateway.counters[ACTIVE] and not getattr(upstream, at))
    for _ in range(10):
        await asyncio.sleep(0)  # the event loop releases closed connections in its next iterations
    assert held < 16 * 1024 * 1024 + CROWD * MOST_OF_EACH


CROWDS: list[tuple[Callable[[Gateway, Any, int, str], Awaitable[None]], type, bool]] = [
    (slow, Endless, False), (slow, Endless, True), (vanishing, Endless, False),
    (waiting, Hanging, False),
]  # fmt: skip
"""The behaviour of the clients, the upstream, and whether deltas are merged."""

PROTOCOLS = list(ASKED) if CROWD >= FULL else ["chat", SOCKET]

MEETINGS = [(p, *crowd) for p in PROTOCOLS for crowd in CROWDS if p == "chat" or not crowd[-1]]
"""Deltas are merged before they are encoded, whatever the protocol."""


@pytest.mark.heavy
@pytest.mark.parametrize(("protocol", "crowd", "upstream", "coalesce"), MEETINGS)
def test_a_crowd_leaves_nothing(protocol: str, crowd: Any, upstream: type, coalesce: bool) -> None:
    asyncio.run(meet(protocol, crowd, upstream, coalesce))  # without a time limit


async def meet(protocol: str, crowd: Any, upstream: type, coalesce: bool) -> None:
    """Let a few clients connect and disconnect, then many, and compare the resources."""
    talks = upstream()
    limits = Limits(PATIENCE, CROWD, coalesce)
    tracemalloc.start()
    try:
        async with serving(talks, limits=limits) as gateway:
            await crowd(gateway, talks, FEW, protocol)
            before = Held.now()
            gateway.counters.clear()  # type: ignore[attr-defined]  # it is a Counter
            await crowd(gateway, talks, CROWD, protocol)
            after = Held.now()
            assert gateway.counters[PEAK] <= CROWD
    finally:
        tracemalloc.stop()
    assert after.tasks == before.tasks
    assert after.descriptors <= before.descriptors
    assert after.memory < before.memory + LEFT_OVER


class Talking(LoopbackServer):
    """A vendor that streams forever; `last` is the latest exchange."""

    last: Exchange

    async def respond(self, exchange: Exchange) -> None:
        self.last = exchange
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "word "}}]}
        while True:
            await exchange.write(b"data: %b\n\n" % msgspec.json.encode(chunk))
            await asyncio.sleep(0.02)


@pytest.mark.skipif(CROWD < FULL, reason="only `make clients` measures times")
@pytest.mark.parametrize("coalesce", [False, True])
async def test_an_upstream_is_closed_within_100_ms_of_the_client(coalesce: bool) -> None:
    took = []
    async with Talking() as vendor:
        own = {"openai": {"base_url": f"{vendor.url}/v1", "api_key": "k", "api": "chat"}}
        routes = {"echo/echo": ["openai/m"]}
        limits = Limits(coalesce=coalesce)
        async with serving(providers=own, routes=routes, limits=limits) as gateway:
            for _ in range(20):
                reader, writer = await open_slowly(gateway.url)
                await reader.readuntil(b"word")
                left = time.monotonic()
                writer.transport.abort()
                took.append(await vendor.last.disconnected() - left)
    print(f"the upstream is closed after {1000 * median(took):.1f} ms")
    assert median(took) < 0.1

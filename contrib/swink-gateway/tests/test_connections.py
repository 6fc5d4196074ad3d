"""Idle and slow connections, and clients that do not read: each has a time limit."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from serving import Scripted, ask, serving, until
from test_keepalive import BEGUN, ENDED, HI, SIGNS, Thinking
from test_responses_socket import CREATE, Silent, answer
from test_seed_scenarios import Flood, open_slowly

import swink_core as swink
from swink_gateway.serving.admission import ACTIVE
from swink_gateway.serving.connections import LEFT, LOOKS, TURNED_AWAY
from swink_gateway.serving.head_meter import MOST_HEAD_BYTES, READ_BYTES
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.responses import SOCKET_SECONDS
from swink_gateway.serving.server import Gateway
from swink_testing.clock import ManualClock

SILENCE = 100.0
LOOK = SILENCE / LOOKS

POSTS = {
    **{name: path for name, (path, *_) in SIGNS.items()},
    "count": "/v1/messages/count_tokens",
    "show": "/api/show",
}
"""The paths whose requests have a body."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def timed(*plugins: Any, **limits: Any) -> AsyncIterator[tuple[Gateway, ManualClock]]:
    """Serve with a clock that the test controls."""
    clock = ManualClock()
    async with serving(*plugins, limits=Limits(clock=clock, **limits)) as gateway:
        yield gateway, clock


async def connect(gateway: Gateway, said: str = "") -> Connection:
    """Connect and send a text."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(gateway.url.rpartition(":")[2]))
    writer.write(said.encode())
    await writer.drain()
    return reader, writer


async def closed(connection: Connection) -> bytes:
    """Return the data until the other end closes the connection."""
    reader, writer = connection
    came = b""
    try:
        while piece := await reader.read(65536):
            came += piece
    except ConnectionResetError:
        pass
    finally:
        writer.close()
    return came


HEAD = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n"

SAID = {"nothing": "", "half a line": "GET /hea", "half a head": HEAD, "one": f"{HEAD}\r\n"}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
async def test_an_idle_connection_is_closed(said: str) -> None:
    async with timed() as (gateway, clock):
        connection = await connect(gateway, said)
        if said == SAID["one"]:
            await connection[0].readuntil(b'"ok"}')
        await open_connections(gateway, 1)
        await clock.advance(SILENCE - 1)
        assert gateway.counters[LEFT] == 0
        await clock.advance(2 * LOOK)
        await closed(connection)
        assert gateway.counters[LEFT] == 1


async def open_connections(gateway: Gateway, count: int) -> None:
    """Wait until the gateway has this many connections."""
    server = super(type(gateway._runner), gateway._runner).server
    assert server is not None
    await until(lambda: len(server.connections) == count)


async def test_a_head_sent_byte_by_byte_does_not_extend_the_time_limit() -> None:
    async with timed() as (gateway, clock):
        connection = await connect(gateway)
        await open_connections(gateway, 1)
        for byte in HEAD[: LOOKS + 1]:
            assert gateway.counters[LEFT] == 0
            connection[1].write(byte.encode())
            await clock.advance(LOOK)
        assert gateway.counters[LEFT] == 1
        await closed(connection)


def head_of(size: int) -> str:
    """Return an unfinished head of about this many bytes, in fields that aiohttp accepts."""
    field = f"X-Field: {'x' * 7000}\r\n"
    return HEAD + field * (size // len(field))


@pytest.mark.parametrize("before", [0, 3], ids=["first", "after others"])
async def test_an_unfinished_head_that_is_too_large_is_refused(before: int) -> None:
    async with timed() as (gateway, _):
        connection = await connect(gateway)
        for _ in range(before):
            connection[1].write(f"{head_of(MOST_HEAD_BYTES // 2)}\r\n".encode())
            assert b" 200 " in await connection[0].readline()
            await connection[0].readuntil(b'"ok"}')
        connection[1].write(head_of(2 * MOST_HEAD_BYTES).encode())
        assert await connection[0].readline() == (
            b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
        )
        await closed(connection)


async def test_a_large_head_behind_a_running_request_closes_the_connection() -> None:
    upstream = Thinking()
    async with timed(upstream) as (gateway, _):
        body = json.dumps(HI)
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        connection = await connect(gateway, f"{head}Content-Length: {len(body)}\r\n\r\n{body}")
        await upstream.asked.wait()
        connection[1].write(head_of(2 * MOST_HEAD_BYTES).encode())
        await closed(connection)
        await until(lambda: not gateway.counters[ACTIVE])


@pytest.mark.parametrize("path", POSTS.values(), ids=POSTS)
async def test_a_body_sent_byte_by_byte_is_aborted(path: str) -> None:
    patience = Limits().patience
    async with timed() as (gateway, clock):
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\n"
        connection = await connect(gateway, head)
        await until(lambda: bool(clock._alarms[1:]))  # the gateway has begun to read
        for _ in range(10):
            connection[1].write(b" ")
            await clock.advance(patience / 10)
        line = await connection[0].readline()
        connection[1].close()
        assert b" 408 " in line
        await until(lambda: not gateway.counters[ACTIVE])


async def test_an_active_request_is_not_idle() -> None:
    upstream = Thinking()
    async with timed(upstream) as (gateway, clock):
        asking = asyncio.ensure_future(ask(gateway, "/v1/chat/completions", HI))
        await upstream.asked.wait()
        await clock.advance(10 * SILENCE)
        await upstream.say(*BEGUN)
        await upstream.say(*ENDED)
        assert (await asking).status == 200
        assert gateway.counters[LEFT] == 0


async def test_an_answer_that_is_not_read_is_aborted() -> None:
    text = "x" * 8_000_000
    said = [swink.TextStart(0), swink.TextDelta(0, text), swink.TextEnd(0)]
    upstream = Scripted([swink.Start(), *said, swink.Done(swink.StopReason.STOP)])
    message = {"role": "user", "content": "Hi"}
    body = json.dumps({"model": "echo/echo", "messages": [message]})
    async with timed(upstream) as (gateway, clock):
        head = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        connection = await connect(gateway, f"{head}Content-Length: {len(body)}\r\n\r\n{body}")
        await until(lambda: bool(gateway._runner._silent))  # the answer is complete
        await clock.advance(SILENCE + LOOK)
        assert gateway.counters[LEFT] == 1
        assert len(await closed(connection)) < len(text)


async def test_at_the_limit_a_new_connection_replaces_an_idle_one() -> None:
    async with timed(connections=3) as (gateway, _):
        silent = [await connect(gateway) for _ in range(3)]
        for asked in range(1, 7):
            await open_connections(gateway, 3)
            assert (await ask(gateway, "/health")).status == 200
            assert gateway.counters[LEFT] == asked
            assert await closed(silent.pop(0)) == b""
            await open_connections(gateway, 2)
            silent.append(await connect(gateway))
        for connection in silent:
            connection[1].close()
        assert gateway.counters[TURNED_AWAY] == 0


async def test_at_the_limit_of_busy_connections_a_new_one_gets_503() -> None:
    upstream = Flood(10_000)
    async with timed(upstream, connections=2) as (gateway, _):
        busy = [await open_slowly(gateway.url) for _ in range(2)]
        await until(lambda: gateway.counters[ACTIVE] == 2)
        refused = await ask(gateway, "/health")
        assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        assert gateway.counters[TURNED_AWAY] == 1
        for connection in busy:
            connection[1].transport.abort()
        await open_connections(gateway, 0)
        assert (await ask(gateway, "/health")).status == 200


async def test_a_connection_that_sends_much_is_read_in_small_parts() -> None:
    upstream = Thinking()
    async with serving(upstream) as gateway:
        asking = asyncio.ensure_future(ask(gateway, SIGNS["chat"][0], HI))
        await upstream.asked.wait()
        [transport] = gateway._runner._busy
        assert transport.max_size == READ_BYTES  # type: ignore[attr-defined]
        await upstream.say(*BEGUN)
        await upstream.say(*ENDED)
        assert (await asking).status == 200


async def test_closed_connections_leave_memory() -> None:
    async with timed(connections=4) as (gateway, _):
        for _ in range(40):
            await ask(gateway, "/health")
        await open_connections(gateway, 0)
        runner = gateway._runner
        await until(lambda: not runner._busy)
        gc.collect()  # asyncio's transports are reference cycles
        assert (len(runner._silent), len(runner._new)) == (0, 0)


async def test_a_websocket_closes_after_an_hour_and_pending_requests_are_answered() -> None:
    upstream = Silent()
    async with (
        timed(upstream) as (gateway, clock),
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses", autoping=True) as socket,
    ):
        await socket.send_json(CREATE)
        await upstream.asked.wait()
        await clock.advance(SOCKET_SECONDS)
        upstream.speak.set()
        said = []
        async for frame in socket:
            said.append(frame.json())
        assert [one["type"] for one in said[-2:]] == ["response.completed", "error"]
        assert said[-1]["error"]["code"] == "websocket_connection_limit_reached"
        async with session.ws_connect(f"{gateway.url}/v1/responses") as another:
            assert (await answer(another, CREATE))[-1]["type"] == "response.completed"


def test_the_connection_limit_follows_the_stream_limit() -> None:
    assert Limits(streams=10_000).connections == 2 * 10_000
    assert Limits(streams=10_000, connections=5).connections == 5

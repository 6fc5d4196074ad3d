"""Workers that share a socket: a full one leaves new connections to those with room."""

from __future__ import annotations

import asyncio
import errno
import mmap
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import pytest
from serving import serving, until
from test_bounds import Hanging

from swink_gateway.serving.accepting import AGAIN_SECONDS, LOOK_SECONDS, MOST_DEFERRED
from swink_gateway.serving.admission import ACTIVE
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.server import Gateway
from swink_gateway.serving.workers import Room, listen
from swink_testing.clock import ManualClock

STREAMS = 3
WORKERS = 2
CHAT = "/v1/chat/completions"
HI = {"model": "echo/echo", "messages": [{"role": "user", "content": "Hi"}]}


@asynccontextmanager
async def workers(upstream: Any, clock: ManualClock) -> AsyncIterator[list[Gateway]]:
    """Serve one socket with several gateways."""
    flags = mmap.mmap(-1, WORKERS)
    async with AsyncExitStack() as stack:
        first = stack.enter_context(listen("127.0.0.1", 0))
        limits = Limits(streams=STREAMS, clock=clock)
        yield [
            await stack.enter_async_context(
                serving(upstream, limits=limits, shared=(shared, Room(flags, slot)))
            )
            for slot, shared in enumerate(first.dup() for _ in range(WORKERS))
        ]


def active(gateways: list[Gateway]) -> list[int]:
    return [gateway.counters[ACTIVE] for gateway in gateways]


async def post(gateway: Gateway, session: aiohttp.ClientSession) -> int:
    async with session.post(gateway.url + CHAT, json=HI) as response:
        return response.status


async def test_workers_are_full_before_a_request_is_refused() -> None:
    clock = ManualClock()
    async with (
        workers(Hanging(), clock) as gateways,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session,
    ):
        asked = [
            asyncio.ensure_future(post(gateways[0], session)) for _ in range(STREAMS * WORKERS)
        ]
        await until(lambda: sum(active(gateways)) == STREAMS * WORKERS)
        assert active(gateways) == [STREAMS] * WORKERS
        refused = asyncio.ensure_future(post(gateways[0], session))
        while not refused.done():
            await clock.advance(LOOK_SECONDS)
        assert refused.result() == 503
        for task in asked:
            task.cancel()
        await until(lambda: not sum(active(gateways)))
        kept = asyncio.ensure_future(post(gateways[0], session))
        await until(lambda: sum(active(gateways)) == 1)  # they accept again
        kept.cancel()


@asynccontextmanager
async def one_waits(clock: ManualClock, *, has_other: bool) -> AsyncIterator[asyncio.Task[int]]:
    """Serve with a full worker, and yield a request whose connection is not accepted yet.

    With `has_other`, another worker has room, and accepts nothing.
    """
    flags = mmap.mmap(-1, WORKERS)
    Room(flags, 1).tell(has_room=has_other)
    with listen("127.0.0.1", 0) as first:
        limits = Limits(streams=1, clock=clock)
        async with (
            serving(Hanging(), limits=limits, shared=(first.dup(), Room(flags, 0))) as gateway,
            aiohttp.ClientSession() as session,
        ):
            asked = asyncio.ensure_future(post(gateway, session))
            await until(lambda: gateway.counters[ACTIVE] == 1)
            late = asyncio.ensure_future(post(gateway, session))
            await _connected(first)
            yield late
            asked.cancel()


async def test_a_full_worker_accepts_what_a_hung_one_leaves_waiting() -> None:
    clock = ManualClock()
    async with one_waits(clock, has_other=True) as late:
        for _ in range(MOST_DEFERRED):
            await clock.advance(LOOK_SECONDS)
            assert not late.done()
        await clock.advance(LOOK_SECONDS)
        assert await late == 503


async def test_a_full_worker_closes_connections_that_wait_for_a_next_request() -> None:
    clock, flags = ManualClock(), mmap.mmap(-1, WORKERS)
    Room(flags, 1).tell(has_room=True)
    with listen("127.0.0.1", 0) as first:
        limits = Limits(streams=1, clock=clock)
        async with serving(Hanging(), limits=limits, shared=(first.dup(), Room(flags, 0))) as one:
            reader, writer = await asyncio.open_connection(*first.getsockname())
            writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await reader.readuntil(b'"ok"}')
            async with aiohttp.ClientSession() as session:
                asked = asyncio.ensure_future(post(one, session))
                assert await reader.read() == b""
                asked.cancel()
            writer.close()


async def test_an_error_while_accepting_pauses_it_for_the_time_of_its_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    async with one_waits(clock, has_other=False) as late:
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "accept", _no_descriptor)
            for _ in range(int(AGAIN_SECONDS / LOOK_SECONDS)):
                await clock.advance(LOOK_SECONDS)
        assert caplog.text.count("no connection can be accepted for 1 s") == 1
        await clock.advance(AGAIN_SECONDS)
        assert await late == 503


def _no_descriptor(sock: socket.socket) -> Any:
    raise OSError(errno.EMFILE, "Too many open files")


async def _connected(sock: socket.socket) -> None:
    """Wait until a connection waits to be accepted."""
    await asyncio.to_thread(_poll, sock)


def _poll(sock: socket.socket) -> None:
    import select

    poll = select.poll()
    poll.register(sock, select.POLLIN)
    assert poll.poll(10_000)

"""The loopback server below the others: it does what a script says, write for write."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from swink_recorder.loopback import Exchange, LoopbackServer


async def fetch(url: str, data: Any = None) -> tuple[aiohttp.ClientResponse, bytes]:
    async with aiohttp.ClientSession() as session, session.post(url, data=data) as response:
        return response, await response.read()


class Scripted(LoopbackServer):
    """Does to each exchange what it is given."""

    def __init__(self, act: Any) -> None:
        super().__init__()
        self._act = act

    async def respond(self, exchange: Exchange) -> None:
        await self._act(exchange)


async def wrong(exchange: Exchange) -> None:
    raise LookupError("the script is wrong")


async def test_an_exchange_can_break_off_in_the_middle() -> None:
    is_read = asyncio.Event()

    async def act(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(b"half of ")
        await is_read.wait()
        exchange.reset()

    async with (
        Scripted(act) as server,
        aiohttp.ClientSession() as session,
        session.post(server.url) as response,
    ):
        first = await response.content.readany()
        is_read.set()
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await response.content.readany()

    assert first == b"half of "
    assert not server.exchanges[0].ended


async def test_a_server_that_has_caught_up_knows_all_disconnects() -> None:
    async def act(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(b"half of ")
        await asyncio.Event().wait()

    async with Scripted(act) as server, aiohttp.ClientSession() as session:
        async with session.post(server.url) as response:
            await response.content.readany()
            await server.caught_up()
            assert server.exchanges[0].disconnected_at is None
            response.close()
        await server.caught_up()
        assert [exchange.disconnected_at is None for exchange in server.exchanges] == [False]


async def test_a_chunked_request_is_read_whole() -> None:
    async def act(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(exchange.body)
        await exchange.end()

    async def body() -> AsyncIterator[bytes]:
        for piece in (b"one ", b"two ", b"three"):
            yield piece

    async with Scripted(act) as server:
        _, answer = await fetch(server.url, body())

    assert answer == b"one two three"


@pytest.mark.parametrize("size", [1, 7, 4096])
async def test_requests_arrive_in_pieces_and_one_after_another(size: int) -> None:
    async def act(exchange: Exchange) -> None:
        await exchange.start()
        await exchange.write(exchange.path.encode() + exchange.body)
        await exchange.end()

    requests = (
        b"".join(
            b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nhi" % n for n in range(2)
        )
        + b"POST /2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\n\r\n"
    )
    async with Scripted(act) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url[17:]))
        for start in range(0, len(requests), size):
            writer.write(requests[start : start + size])
            await writer.drain()
        heads = [await reader.readuntil(b"0\r\n\r\n") for _ in range(3)]
        writer.close()
        await writer.wait_closed()

    assert [head.rpartition(b"\r\n4\r\n")[2][:4] for head in heads] == [b"/0hi", b"/1hi", b"/2hi"]


async def test_a_client_that_does_not_read_is_waited_for() -> None:
    piece, count = b"x" * 65536, 1000

    async def act(exchange: Exchange) -> None:
        await exchange.start()
        for _ in range(count):
            await exchange.write(piece)
        await exchange.end()

    async with (
        Scripted(act) as server,
        aiohttp.ClientSession() as session,
        session.post(server.url) as response,
    ):
        first = await response.content.readany()
        before, sent = -1, server.exchanges[0].pieces
        while before != sent:  # until all buffers are full
            await asyncio.sleep(0.02)
            before, sent = sent, server.exchanges[0].pieces
        rest = await response.read()

    assert sent < count
    assert len(first) + len(rest) == count * len(piece)


async def test_an_exception_of_a_script_reaches_the_test() -> None:
    server = Scripted(wrong)
    await server.start()

    with pytest.raises(aiohttp.ServerDisconnectedError):
        await fetch(server.url)
    with pytest.raises(LookupError, match="the script is wrong"):
        await server.aclose()


@pytest.mark.parametrize("turns", range(8))
def test_a_server_that_is_cancelled_during_its_start_leaves_no_socket_open(turns: int) -> None:
    async def run() -> None:
        async with Scripted(wrong) as server:
            further = Scripted(wrong)
            further.listen(server)
            try:
                await asyncio.Event().wait()
            finally:
                await further.aclose()

    async def cancel() -> None:
        running = asyncio.create_task(run())
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    gc.collect()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(cancel())
        gc.collect()
    assert not [str(one.message) for one in found]


async def test_an_unknown_status_has_a_reason_too() -> None:
    async def act(exchange: Exchange) -> None:
        await exchange.start(529)
        await exchange.end()

    async with Scripted(act) as server:
        response, _ = await fetch(server.url)

    assert (response.status, response.reason) == (529, "Other")


def test_an_exception_in_the_server_thread_reaches_the_test() -> None:
    async def ask(url: str) -> None:
        with pytest.raises(aiohttp.ServerDisconnectedError):
            await fetch(url)

    with pytest.raises(LookupError, match="the script is wrong"), Scripted(wrong) as server:
        asyncio.run(ask(server.url))

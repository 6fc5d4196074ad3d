"""WebSockets of the HTTP client: what is sent, what a read is, what a refusal looks like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from swink_core import AiohttpClient, HTTPRequest, HTTPResponse, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.framing import DEFAULT_FRAME_LIMIT

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connect(url: str, limit: float | None = 5.0) -> AsyncIterator[HTTPResponse]:
    client = AiohttpClient()
    try:
        response = await client.send(HTTPRequest(url, b"ask", {"X-Key": "k"}), limit)
        yield response
        response.close()
    finally:
        await client.aclose()


def saying(*messages: str | bytes) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(f"{request.headers['X-Key']}:{await socket.receive_str()}")
        for message in messages:
            if isinstance(message, bytes):
                await socket.send_bytes(message)
            else:
                await socket.send_str(message)
        return socket

    return handler


async def test_the_body_is_the_first_message_and_a_read_is_a_message() -> None:
    async with serve(saying("é", b"\xff", "", "last")) as url, connect(url) as socket:
        read = [await socket.read() for _ in range(5)]

    assert socket.status == 101
    assert read == [b"k:ask", "é".encode(), b"\xff", b"last", b""]


async def test_headers_of_the_upgrade_are_those_of_the_response() -> None:
    async with serve(saying()) as url, connect(url) as socket:
        assert socket.headers["upgrade"].lower() == "websocket"


@pytest.mark.parametrize("status", [200, 302, 401, 426, 503])
async def test_a_refusal_is_a_response_without_a_body(status: int) -> None:
    asked = []

    async def refuse(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        headers = {"Retry-After": "7", "Location": "/elsewhere"}
        return web.Response(status=status, text="no", headers=headers)

    async with serve(refuse) as url, connect(url) as response:
        assert response.status == status
        assert response.headers["retry-after"] == "7"
        assert await response.read() == b""
    assert asked == ["/"]


async def test_a_message_beyond_the_limit_of_a_frame_is_a_failure() -> None:
    async with serve(saying(b"x" * (DEFAULT_FRAME_LIMIT + 1))) as url, connect(url) as socket:
        assert await socket.read() == b"k:ask"
        with pytest.raises(ProviderFailure) as caught:
            await socket.read()

    assert caught.value.failure.kind is Kind.PROTOCOL
    assert caught.value.failure.phase == "streaming"


async def test_closing_leaves_at_once() -> None:
    left = asyncio.Event()

    async def wait(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.receive()
        left.set()
        return socket

    async with serve(wait) as url, connect(url) as socket:
        socket.close()
        await asyncio.wait_for(left.wait(), 5)


async def test_a_server_that_never_answers_meets_the_limit() -> None:
    release = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        await release.wait()
        return web.Response()

    async with serve(hang) as url:
        with pytest.raises(ProviderFailure) as caught:
            async with connect(url, limit=0.05):
                pass
        release.set()

    assert (caught.value.failure.kind, caught.value.failure.code) == (Kind.TIMEOUT, "connect")


async def test_nobody_there_is_a_refused_connection() -> None:
    async with serve(saying()) as url:
        pass
    with pytest.raises(ProviderFailure) as caught:
        async with connect(url):
            pass

    assert caught.value.failure.code == "connection_refused"

"""WebSockets as responses: what is read, how they end, and what their failures are called."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from swink_core import ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import AiohttpClient, HTTPRequest
from swink_provider_openai.responses.websocket import open_websocket

HTTP_TIMEOUT = 10.0


@asynccontextmanager
async def http_client() -> AsyncIterator[AiohttpClient]:
    client = AiohttpClient()
    try:
        yield client
    finally:
        await client.aclose()


async def failure_of(url: str, connect_timeout: float | None = HTTP_TIMEOUT) -> Any:
    async with http_client() as client:
        with pytest.raises(ProviderFailure) as caught:
            await open_websocket(client, HTTPRequest(url), connect_timeout)
    return caught.value.failure


@asynccontextmanager
async def serving(handle: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
    app = web.Application()
    app.router.add_get("/ws", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"ws://127.0.0.1:{runner.addresses[0][1]}/ws"
    finally:
        await runner.cleanup()


def websocket_server(answer: Any) -> Any:
    """Serves one function of a WebSocket, whose first message has been received."""

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await answer(socket, await socket.receive_str())
        return socket

    return serving(handle)


async def test_over_a_websocket_the_body_is_the_first_message_and_a_read_is_a_message() -> None:
    async def answer(peer: web.WebSocketResponse, first: str) -> None:
        await peer.send_str(f"heard {first}")
        await peer.send_str("")
        await peer.ping()
        await peer.send_bytes("ü".encode())
        await peer.close()

    async with websocket_server(answer) as url, http_client() as client:
        response = await open_websocket(client, HTTPRequest(url, b"hello"), HTTP_TIMEOUT)
        assert response.status == 101
        reads = [await anext(response, b"") for _ in range(3)]
        response.close()
    assert reads == [b"heard hello", "ü".encode(), b""]


@pytest.mark.parametrize(
    ("code", "why", "kind", "said"),
    [
        (1000, b"bye", None, None),
        (1008, b"invalid api key", None, "invalid api key"),
        (1013, b"", None, "the WebSocket was closed with code 1013"),
        (4000, b"no", None, "no"),
        (1011, b"restarting", Kind.NETWORK, "restarting"),
    ],
)
async def test_a_websocket_that_is_closed_says_why(
    code: int, why: bytes, kind: Kind | None, said: str | None
) -> None:
    async def answer(peer: web.WebSocketResponse, first: str) -> None:
        await peer.send_str("a")
        await peer.close(code=code, message=why)

    async with websocket_server(answer) as url, http_client() as client:
        response = await open_websocket(client, HTTPRequest(url, b"hello"), HTTP_TIMEOUT)
        assert await anext(response) == b"a"
        if said is None:
            assert await anext(response, b"") == b""
        else:
            with pytest.raises(ProviderFailure) as caught:
                await anext(response)
            failure = caught.value.failure
            assert (failure.code, failure.message) == (f"close_{code}", said)
            assert failure.kind is kind
        response.close()


async def test_closing_a_websocket_closes_its_connection() -> None:
    closed = asyncio.Event()

    async def answer(peer: web.WebSocketResponse, first: str) -> None:
        await peer.receive()
        closed.set()

    async with websocket_server(answer) as url, http_client() as client:
        response = await open_websocket(client, HTTPRequest(url, b"hello"), HTTP_TIMEOUT)
        response.close()
        await closed.wait()


@pytest.mark.parametrize(
    ("status", "headers"), [(403, {"X-Request-Id": "q1"}), (302, {"Location": "/elsewhere"})]
)
async def test_a_refusal_and_a_redirect_are_answers_with_their_status(
    status: int, headers: dict[str, str]
) -> None:
    asked = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=status, headers=headers)

    async with serving(handle) as url, http_client() as client:
        response = await open_websocket(client, HTTPRequest(url, b"hello"), HTTP_TIMEOUT)
        assert await anext(response, b"") == b""
        response.close()
    assert response.status == status
    assert {name: response.headers[name] for name in headers} == headers  # however it is spelled
    assert asked == ["/ws"]


async def test_a_websocket_that_is_not_answered_meets_the_limit() -> None:
    async def nothing(request: web.Request) -> web.Response:
        return await asyncio.Future()

    async with serving(nothing) as url:
        failure = await failure_of(url, connect_timeout=0.05)
    assert (failure.kind, failure.code) == (Kind.TIMEOUT, "connect")


async def test_a_websocket_that_nobody_serves_is_a_refused_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    failure = await failure_of(f"ws://127.0.0.1:{port}/")
    assert (failure.kind, failure.code) == (Kind.NETWORK, "connection_refused")


async def test_a_dead_proxy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        monkeypatch.setenv("https_proxy", f"http://somebody:S3CRET-1@{address}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        failure = await failure_of("wss://api.invalid/v1")
    assert (failure.kind, failure.code) == (Kind.NETWORK, "connection_refused")
    assert f"through the proxy http://{address} (https_proxy)" in failure.message
    assert "S3CRET-1" not in failure.message


async def test_a_header_that_cannot_be_sent_is_refused_before_anything_is() -> None:
    async with http_client() as client:
        with pytest.raises(ProviderFailure, match="line break"):
            await open_websocket(client, HTTPRequest("ws://a.invalid", b"", {"X": "a\nb"}), None)


async def test_the_address_may_name_a_user() -> None:
    asked = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(request.headers["Authorization"])
        return web.Response(status=403)

    async with serving(handle) as url, http_client() as client:
        await open_websocket(client, HTTPRequest(url.replace("//", "//me:word@")), HTTP_TIMEOUT)
    assert asked == ["Basic bWU6d29yZA=="]


async def test_a_message_that_is_too_long_is_a_protocol_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swink_provider_openai.responses.websocket.DEFAULT_FRAME_LIMIT", 100)

    async def answer(peer: web.WebSocketResponse, first: str) -> None:
        await peer.send_str("x" * 200)
        await peer.receive()

    async with websocket_server(answer) as url, http_client() as client:
        response = await open_websocket(client, HTTPRequest(url, b"hello"), HTTP_TIMEOUT)
        with pytest.raises(ProviderFailure) as caught:
            await anext(response)
        response.close()
    assert (caught.value.failure.kind, caught.value.failure.code) == (Kind.PROTOCOL, "websocket")

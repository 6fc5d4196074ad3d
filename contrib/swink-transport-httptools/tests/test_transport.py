"""The features of this client alone. `tests/providers` tests both clients in the same way."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from swink_core import Client, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import AiohttpClient, HTTPRequest
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_transport_httptools import HttptoolsClient, connection, inflate, pool
from swink_transport_httptools.inflate import Inflater

TIMEOUT = 10.0

Answer = Callable[[Exchange], Awaitable[None]]


class Server(LoopbackServer):
    """Answers with a function, or with these bytes."""

    def __init__(self, answer: Answer | bytes) -> None:
        super().__init__()
        self.answer = answer

    async def respond(self, exchange: Exchange) -> None:
        if not isinstance(self.answer, bytes):
            await self.answer(exchange)
            return
        await exchange.raw(self.answer)
        exchange.ended = True


@asynccontextmanager
async def asking(answer: Answer | bytes) -> AsyncIterator[tuple[HttptoolsClient, Server]]:
    client = HttptoolsClient()
    async with Server(answer) as server:
        try:
            yield client, server
        finally:
            await client.aclose()


async def read_all(response: Any) -> bytes:
    return b"".join([data async for data in response])


async def ask(client: HttptoolsClient, url: str, **given: Any) -> bytes:
    return await read_all(await client.send(HTTPRequest(url, **given), TIMEOUT))


def with_length(body: bytes, more: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def connections(server: Server) -> int:
    return len({id(exchange._connection) for exchange in server.exchanges})


# -- requests ------------------------------------------------------------------------------------


async def test_a_request_has_the_headers_that_aiohttp_sends_too() -> None:
    given = {"url": "", "body": b"x", "headers": {"X-A": "ä", "accept": "text/event-stream"}}
    found = []
    for client in (HttptoolsClient(), AiohttpClient()):
        async with Server(with_length(b"")) as server:
            url = f"{server.url}/a%2Fb c?d=é"
            await read_all(await client.send(HTTPRequest(**{**given, "url": url}), TIMEOUT))
            (exchange,) = server.exchanges
            headers = dict(exchange.headers)
            assert headers.pop("user-agent")
            host = headers.pop("host")
            assert server.url == f"http://{host}"
            found.append((exchange.path, exchange.query, exchange.body, headers))
        await client.aclose()
    theirs = found[1][3]
    # from Python 3.14 on, aiohttp decodes zstd as well
    theirs["accept-encoding"] = theirs["accept-encoding"].removesuffix(", zstd")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("method", "body", "length"),
    [("POST", b"", "0"), ("GET", b"", None), ("GET", b"x", "1"), ("DELETE", b"", "0")],
)
async def test_a_request_without_a_body_has_a_length_where_a_body_is_usual(
    method: str, body: bytes, length: str | None
) -> None:
    async with asking(with_length(b"")) as (client, server):
        await ask(client, server.url, method=method, body=body)
        assert server.exchanges[0].headers.get("content-length") == length


async def test_a_host_of_the_caller_replaces_that_of_the_url() -> None:
    async with asking(with_length(b"")) as (client, server):
        await ask(client, server.url, headers={"host": "api.example"})
        assert server.exchanges[0].headers["host"] == "api.example"


@pytest.mark.parametrize(
    "given",
    [
        {"method": "HEAD"},
        {"headers": {"Accept-Encoding": "identity"}},
        {"headers": {"connection": "close"}},
    ],
    ids=["HEAD", "a coding", "a connection header"],
)
async def test_aiohttp_sends_what_this_client_does_not(given: dict[str, Any]) -> None:
    async with asking(with_length(b"")) as (client, server):
        await ask(client, server.url, **given)
        assert "aiohttp" in server.exchanges[0].headers["user-agent"]
        await ask(client, server.url)
        assert "httptools" in server.exchanges[1].headers["user-agent"]


async def test_a_large_request_is_answered_before_it_has_been_sent() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        await writer.drain()
        await done.wait()
        writer.close()

    done = asyncio.Event()
    client = HttptoolsClient()
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        body = bytes(64 * 1024 * 1024)  # more than the system's buffers hold
        response = await client.send(HTTPRequest(url, body), TIMEOUT)
        assert response.status == 413
        assert await read_all(response) == b"big"
        (known,) = client._pools.values()
        assert not any(known[1]._idle.values())  # the rest of the body would follow
        done.set()
        await client.aclose()


# -- responses -----------------------------------------------------------------------------------

# (name, the response, its body)
RESPONSES = [
    ("early_hints", b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + with_length(b"x"), b"x"),
    ("many_informational", b"HTTP/1.1 100 Continue\r\n\r\n" * 3000 + with_length(b"x"), b"x"),
    ("a_coding_in_capitals", with_length(b"x", "Content-Encoding: IDENTITY\r\n"), b"x"),
    ("no_content", b"HTTP/1.1 204 None\r\n\r\n", b""),
    ("gzip", with_length(gzip.compress(b"x"), "Content-Encoding: GZip\r\n"), b"x"),
    (
        "trailers",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nA: b\r\n\r\n",
        b"x",
    ),
]


@pytest.mark.parametrize(
    ("answer", "body"), [case[1:] for case in RESPONSES], ids=[case[0] for case in RESPONSES]
)
async def test_a_response_is_read_and_its_connection_used_again(answer: bytes, body: bytes) -> None:
    async with asking(answer) as (client, server):
        assert [await ask(client, server.url) for _ in range(2)] == [body, body]
        assert connections(server) == 1


@pytest.mark.parametrize(
    "answer",
    [
        with_length(b"x", "Connection: close\r\n"),
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
        with_length(b"x") + with_length(b"a second answer"),
        with_length(b"x") + b"\0",
    ],
    ids=["close", "HTTP/1.0", "a second answer", "no HTTP after it"],
)
async def test_a_connection_with_a_doubt_is_not_used_again(answer: bytes) -> None:
    async with asking(answer) as (client, server):
        assert [await ask(client, server.url) for _ in range(2)] == [b"x", b"x"]
        assert connections(server) == 2


@pytest.mark.parametrize("coding", [None, b"gzip", b"chunked, gzip", b"\x0cchunked"])
async def test_a_body_without_a_length_ends_with_its_connection(coding: bytes | None) -> None:
    header = b"" if coding is None else b"Transfer-Encoding: %b\r\n" % coding

    async def answer(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\n%b\r\nall of it" % header)
        exchange.ended = True
        exchange.close()

    async with asking(answer) as (client, server):
        assert await ask(client, server.url) == b"all of it"


# (name, the response, part of the message)
REFUSED = [
    ("a_long_header", with_length(b"", f"A: {'x' * 8190}\r\n"), "a header exceeds 8190 bytes"),
    ("many_headers", with_length(b"", "A: b\r\n" * 128), "more than 128 headers"),
    ("a_long_reason", b"HTTP/1.1 200 " + b"x" * 9000, "the status line exceeds 8190 bytes"),
    ("a_null_byte", with_length(b"", "A: \0\r\n"), "a header contains a null byte"),
    ("an_unknown_coding", with_length(b"x", "Content-Encoding: br\r\n"), "br was not requested"),
    ("no_http", b"220 mail.example ESMTP\r\n\r\n", "invalid HTTP response"),
]


@pytest.mark.parametrize(
    ("answer", "why"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
async def test_a_head_beyond_the_limits_is_refused(answer: bytes, why: str) -> None:
    async with asking(answer) as (client, server):
        with pytest.raises(ProviderFailure) as caught:
            await client.send(HTTPRequest(server.url), TIMEOUT)
        failure = caught.value.failure
        assert (failure.kind, failure.code, failure.phase) == (Kind.PROTOCOL, "http", "connect")
        assert why in str(failure.message)


@pytest.mark.parametrize(
    "begin",
    [b"HTTP/1.1 200 OK\r\nA: ", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: "],
    ids=["header", "trailer"],
)
async def test_a_header_that_does_not_end_is_not_collected(begin: bytes) -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.raw(begin)
        while True:
            await exchange.raw(b"x" * 1000)
            await asyncio.sleep(0)

    async with asking(answer) as (client, server):
        with pytest.raises(ProviderFailure) as caught:
            await ask(client, server.url)
        assert caught.value.failure.kind is Kind.PROTOCOL
        assert server.exchanges[0].sent < 2**25  # what the system's buffers hold


async def test_a_malformed_chunk_is_a_failure_after_what_came_before() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with asking(head + b"1\r\nx\r\nno size\r\n") as (client, server):
        response = await client.send(HTTPRequest(server.url), TIMEOUT)
        assert await anext(response) == b"x"
        with pytest.raises(ProviderFailure) as caught:
            await anext(response)
        response.close()
    failure = caught.value.failure
    assert (failure.kind, failure.code, failure.phase) == (Kind.PROTOCOL, "http", "streaming")


async def test_a_closed_response_does_not_look_complete() -> None:
    async with asking(with_length(b"x" * 9)[:-1]) as (client, server):
        response: Any = await client.send(HTTPRequest(server.url), TIMEOUT)
        response.close()
        assert not response.at_end
        with pytest.raises(ProviderFailure, match="the response is closed"):
            await anext(response)


async def test_a_body_that_is_not_read_is_not_received_without_a_limit() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            await exchange.raw(bytes(65536))

    async with asking(answer) as (client, server):
        response: Any = await client.send(HTTPRequest(server.url), TIMEOUT)
        while not response._connection._is_paused:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0)
        assert response._connection._size <= 3 * connection.MOST_UNREAD
        response.close()
        await server.exchanges[0].disconnected()


async def test_a_forgotten_response_closes_its_connection() -> None:
    async def answer(exchange: Exchange) -> None:
        await exchange.start(200, {})
        await asyncio.Event().wait()

    async with asking(answer) as (client, server):
        response: Any = await client.send(HTTPRequest(server.url), TIMEOUT)
        del response
        await server.exchanges[0].disconnected()


# -- connections ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "works"), [("GET", True), ("POST", False)])
async def test_only_a_request_that_may_be_repeated_is_sent_again_on_a_new_connection(
    method: str, works: bool
) -> None:
    async def answer(exchange: Exchange) -> None:
        if len(server.exchanges) == 2:
            exchange.reset()
            return
        await exchange.raw(with_length(b"x"))
        exchange.ended = True

    async with asking(answer) as (client, server):
        assert await ask(client, server.url, method=method) == b"x"
        if works:
            assert await ask(client, server.url, method=method) == b"x"
        else:
            with pytest.raises(ProviderFailure) as caught:
                await ask(client, server.url, method=method)
            assert caught.value.failure.code == "stale"
        assert len(server.exchanges) == 2 + works


async def test_idle_connections_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "KEEP_SECONDS", 0.01)
    async with asking(with_length(b"x")) as (client, server):
        await ask(client, server.url)
        (known,) = client._pools.values()
        while known[1]._open:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0.001)
        assert known[1]._idle == {}
        assert known[1]._timer is None


async def test_an_expired_connection_is_not_used_before_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with asking(with_length(b"x")) as (client, server):
        await ask(client, server.url)
        monkeypatch.setattr(pool, "KEEP_SECONDS", -1.0)
        await ask(client, server.url)
        assert connections(server) == 2


async def test_the_number_of_idle_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MOST_IDLE", 2)
    async with asking(with_length(b"x")) as (client, server):
        responses = [await client.send(HTTPRequest(server.url), TIMEOUT) for _ in range(4)]
        for response in responses:
            await read_all(response)
        (known,) = client._pools.values()
        assert [len(idle) for idle in known[1]._idle.values()] == [2]


async def test_requests_at_once_look_a_name_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    lookups = []
    look_up = loop.getaddrinfo

    async def counting(host: Any, *args: Any, **kwargs: Any) -> Any:
        lookups.append(host)
        return await look_up(host, *args, **kwargs)

    monkeypatch.setattr(loop, "getaddrinfo", counting)
    async with asking(with_length(b"x")) as (client, server):
        url = server.url.replace("127.0.0.1", "localhost")
        await asyncio.gather(*(ask(client, url) for _ in range(5)))
        client.close_idle()
        await ask(client, url)
    assert lookups == ["localhost"]


async def test_connections_are_spread_over_the_addresses_of_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()

    async def several(host: str, *_: Any, **__: Any) -> list[Any]:
        return [(host, number) for number in range(3)]

    monkeypatch.setattr(loop, "getaddrinfo", several)
    known = pool.Pool(loop)
    found: list[Any] = [await known._resolve("api.example", 443) for _ in range(4)]
    assert [addresses[0][1] for addresses in found] == [0, 1, 2, 0]
    assert all(len(addresses) == 3 for addresses in found)


async def test_cancelling_one_request_leaves_the_others_that_wait_for_the_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = asyncio.get_running_loop()
    look_up, go_on = loop.getaddrinfo, asyncio.Event()

    async def waiting(*args: Any, **kwargs: Any) -> Any:
        await go_on.wait()
        return await look_up(*args, **kwargs)

    monkeypatch.setattr(loop, "getaddrinfo", waiting)
    async with asking(with_length(b"x")) as (client, server):
        url = server.url.replace("127.0.0.1", "localhost")
        first, second = (asyncio.create_task(ask(client, url)) for _ in range(2))
        while not client._pools:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        go_on.set()
        assert await second == b"x"
        assert first.cancelled()


async def test_a_client_for_calls_takes_it_and_closes_it() -> None:
    http = HttptoolsClient()
    async with Client(http=http) as client:
        message = await client.complete("echo/echo", "Hello")
        assert message.text
    assert http._closed


# -- decompression -------------------------------------------------------------------------------


def inflated(coding: str, data: bytes, step: int) -> bytes:
    inflater = Inflater(coding)
    found = []
    for start in range(0, len(data), step):
        inflater.feed(data[start : start + step])
        while piece := inflater.read():
            assert len(piece) <= inflate.MOST_INFLATED
            found.append(piece)
    inflater.finish()
    return b"".join(found)


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("step", [1, 7, 1000, 10**6])
@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", raw_deflate),
        ("gzip", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
    ],
    ids=["gzip", "zlib", "deflate", "members"],
)
def test_a_body_is_inflated_however_it_is_cut(coding: str, compress: Any, step: int) -> None:
    body = b"".join(b"data: %d\n\n" % number for number in range(300))
    assert inflated(coding, compress(body), step) == body


def test_a_bomb_comes_in_pieces() -> None:
    size = 5 * inflate.MOST_INFLATED + 1
    assert inflated("gzip", gzip.compress(bytes(size)), 10**6) == bytes(size)


@pytest.mark.parametrize(
    ("coding", "data"),
    [
        ("gzip", b"no gzip"),
        ("gzip", gzip.compress(b"x") + b"rest"),
        ("gzip", gzip.compress(b"") * (inflate.MOST_MEMBERS + 2)),
        ("deflate", zlib.compress(b"x" * 99)[:-4]),
    ],
    ids=["no gzip", "something after it", "too many members", "cut off"],
)
def test_what_cannot_be_inflated_is_an_error(coding: str, data: bytes) -> None:
    with pytest.raises(zlib.error):
        inflated(coding, data, 10**6)


def test_what_came_before_an_error_is_returned_first() -> None:
    inflater = Inflater("gzip")
    inflater.feed(gzip.compress(b"good") + b"bad data after it")
    assert inflater.read() == b"good"
    for _ in range(2):
        with pytest.raises(zlib.error):
            inflater.read()

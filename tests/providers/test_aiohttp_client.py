"""The network through each HTTP client: requests, connections, the names of their failures."""

from __future__ import annotations

import asyncio
import errno
import gzip
import random
import socket
import ssl
from itertools import pairwise
from typing import Any

import pytest
from fakes import SSE, Server, free_port, http_client, read_all, says, sends

import swink_core.client as clients
from swink_core import ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import HTTPRequest, aiohttp_client
from swink_recorder.loopback import Exchange

pytestmark = pytest.mark.usefixtures("transport")

HTTP_TIMEOUT = 10.0

LONGEST_HEAD = 1024
"""Bytes for the headers of a request, which go out with the first piece of the body."""


async def failure_of(url: str, connect_timeout: float | None = HTTP_TIMEOUT) -> Any:
    async with http_client() as client:
        with pytest.raises(ProviderFailure) as caught:
            await client.send(HTTPRequest(url), connect_timeout)
    return caught.value.failure


async def test_a_request_arrives_as_it_was_made() -> None:
    async with Server(says(200, b"yes", {"X-Mark": "1"})) as server, http_client() as client:
        request = HTTPRequest(f"{server.url}/v1/chat?a=b", b"body", {"X-Test": "x"})
        response = await client.send(request, HTTP_TIMEOUT)
        assert await read_all(response) == b"yes"
        response.close()
        (exchange,) = server.exchanges
    assert (exchange.method, exchange.path, exchange.query) == ("POST", "/v1/chat", {"a": "b"})
    assert (exchange.body, exchange.headers["x-test"]) == (b"body", "x")
    assert (response.status, response.headers["x-mark"]) == (200, "1")


async def test_a_request_without_a_body_names_no_content_type() -> None:
    async with Server(says(200, b"", {})) as server, http_client() as client:
        await client.send(HTTPRequest(f"{server.url}/jobs/7/cancel"), HTTP_TIMEOUT)
    sent = server.exchanges[0]
    assert (sent.method, sent.body, sent.headers["content-length"]) == ("POST", b"", "0")
    assert "content-type" not in sent.headers


async def test_an_encoded_slash_is_neither_decoded_nor_encoded_again() -> None:
    async with Server(says(200, b"", {})) as server, http_client() as client:
        await client.send(HTTPRequest(f"{server.url}/models/a%2Fb"), HTTP_TIMEOUT)
    assert server.exchanges[0].path == "/models/a%2Fb"


async def test_each_write_of_the_server_is_a_read_as_it_comes() -> None:
    go_on = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.start(200, SSE)
        await exchange.write(b"one")
        await go_on.wait()
        await exchange.write(b"two")
        await exchange.end()

    async with Server(answer) as server, http_client() as client:
        response = await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
        assert await anext(response) == b"one"  # though the answer has not ended
        go_on.set()
        assert await read_all(response) == b"two"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> set[float]:
    """The seconds of the calls of `asyncio.sleep`; none of them waits."""
    found: set[float] = set()
    sleep = asyncio.sleep

    async def noting(seconds: float, *result: Any) -> Any:
        found.add(seconds)
        return await sleep(0, *result)

    monkeypatch.setattr(asyncio, "sleep", noting)
    return found


class Ready:
    """The part of aiohttp's response that is already complete: no read waits."""

    status, headers = 200, dict[str, str]()

    def __init__(self, pieces: list[bytes]) -> None:
        self.content, self._pieces = self, iter(pieces)

    async def readany(self) -> bytes:
        return next(self._pieces, b"")


@pytest.mark.parametrize("size", [1, 2, 20, 50])
async def test_a_body_that_is_there_already_gives_others_a_turn_whatever_its_pieces(
    size: int, monkeypatch: pytest.MonkeyPatch, waits: set[float]
) -> None:
    async def other() -> None:
        while True:
            turns.append(read)
            await asyncio.sleep(0)

    monkeypatch.setattr(aiohttp_client, "MOST_AT_ONCE", 20)
    read, turns = 0, [0]
    beside = asyncio.create_task(other())
    body: Any = Ready([b"x" * size] * (200 // size))
    async for piece in aiohttp_client._Response(body):
        read += len(piece)
    beside.cancel()
    assert read == 200
    assert max(later - before for before, later in pairwise([*turns, read])) <= 20 + size
    assert waits == {0}


async def test_a_large_request_is_written_in_pieces(
    monkeypatch: pytest.MonkeyPatch, waits: set[float]
) -> None:
    transport: Any = getattr(asyncio.selector_events, "_SelectorSocketTransport")  # noqa: B009
    sizes: list[int] = []
    write, writelines = transport.write, transport.writelines

    def noting(self: Any, data: Any) -> None:
        sizes.append(len(data))
        write(self, data)

    def noting_all(self: Any, data: Any) -> None:  # aiohttp calls it on later Pythons
        sizes.append(sum(map(len, data)))
        writelines(self, data)

    monkeypatch.setattr(transport, "write", noting)
    monkeypatch.setattr(transport, "writelines", noting_all)
    body = random.Random(1).randbytes(3 * aiohttp_client.MOST_AT_ONCE + 1)
    async with Server(says(200, b"yes", {})) as server, http_client() as client:
        response = await client.send(HTTPRequest(server.url, body), HTTP_TIMEOUT)
        assert await read_all(response) == b"yes"
        response.close()
        (exchange,) = server.exchanges
    assert exchange.body == body
    assert exchange.headers["content-length"] == str(len(body))
    assert "transfer-encoding" not in exchange.headers
    assert sum(sizes) > len(body)
    assert max(sizes) <= aiohttp_client.MOST_AT_ONCE + LONGEST_HEAD
    assert waits == {0}


async def test_redirects_are_not_followed() -> None:
    async with Server(says(200, b"", {})) as other:
        redirect = says(307, b"", {"Location": f"{other.url}/stolen"})
        async with Server(redirect) as server, http_client() as client:
            request = HTTPRequest(server.url, b"prompt", {"X-Api-Key": "k"})
            response = await client.send(request, HTTP_TIMEOUT)
            assert response.status == 307
            response.close()
        assert other.exchanges == []


async def test_cookies_are_neither_kept_nor_sent() -> None:
    async with Server(says(200, b"", {"Set-Cookie": "a=b"})) as server, http_client() as client:
        for _ in range(2):
            await read_all(await client.send(HTTPRequest(server.url), HTTP_TIMEOUT))
    assert "cookie" not in server.exchanges[1].headers


async def test_compressed_answers_are_decompressed() -> None:
    body = gzip.compress(b"data: x\n\n")

    async def answer(exchange: Exchange) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n"
        await exchange.raw(head.encode() + body)
        exchange.ended = True

    async with Server(answer) as server, http_client() as client:
        response = await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
        assert await read_all(response) == b"data: x\n\n"


async def test_more_streams_than_a_usual_pool_holds_are_open_at_once() -> None:
    count = 150
    async with Server(sends(b"x", end=False)) as server, http_client() as client:
        requests = [client.send(HTTPRequest(server.url), HTTP_TIMEOUT) for _ in range(count)]
        responses = await asyncio.gather(*requests)
        assert len(server.exchanges) == count
        for response in responses:
            response.close()


async def test_a_connection_is_used_again_after_a_whole_body_only() -> None:
    async with Server(sends(b"x")) as server, http_client() as client:
        first = await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
        await read_all(first)
        first.close()
        second = await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
        assert len(server._connections) == 1
        second.close()  # before its end
        await read_all(await client.send(HTTPRequest(server.url), HTTP_TIMEOUT))
        assert len(server.exchanges) == 3
        assert len(server._connections) == 1


DIRECT = ["http://127.0.0.1:9", "http://localhost:9", "http://box.localhost:9", "http://[::1]:9"]


@pytest.fixture
def _proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_proxied")
@pytest.mark.parametrize("names", [("http_proxy",), ("all_proxy",), ("http_proxy", "all_proxy")])
async def test_the_environments_proxy_is_used(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Server(says(200, b"yes", {})) as server, http_client() as client:
        for name, url in zip(names, (server.url, "http://proxy.invalid"), strict=False):
            monkeypatch.setenv(name, url)
        response = await client.send(HTTPRequest("http://api.invalid/v1"), HTTP_TIMEOUT)
        assert await read_all(response) == b"yes"


@pytest.mark.usefixtures("_proxied")
@pytest.mark.parametrize("url", DIRECT)
def test_localhost_is_never_reached_through_a_proxy(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid")
    client = clients.AiohttpClient()
    assert client._proxy("http://127.acme.example") == "http://proxy.invalid"
    assert client._proxy(url) is None


@pytest.mark.usefixtures("_proxied")
async def test_a_dead_proxy_is_named_with_the_variable_and_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unheard.getsockname()[1]}"
        for name in ("HTTPS_PROXY", "https_proxy"):  # many systems set both
            monkeypatch.setenv(name, f"http://somebody:S3CRET-1@{address}")
        failure = await failure_of("https://api.invalid/v1")
    assert (failure.kind, failure.code) == (Kind.NETWORK, "connection_refused")
    assert f"through the proxy http://{address} (https_proxy)" in failure.message
    assert failure.title == "No connection through the proxy"
    assert "https_proxy" in failure.resolution
    assert "S3CRET-1" not in f"{failure.message} {failure.title} {failure.resolution}"


@pytest.mark.usefixtures("_proxied")
async def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Server(says(407, b"", {})) as server:
        monkeypatch.setenv("https_proxy", server.url)
        failure = await failure_of("https://api.invalid/v1")
    assert failure.message.endswith(f"through the proxy {server.url} (https_proxy)")


@pytest.mark.usefixtures("_proxied")
@pytest.mark.parametrize("proxy", ["nonsense", "127.0.0.1:9", "http://[x", "http://x:99999"])
async def test_a_proxy_that_is_no_address_is_told_apart_from_an_address_that_is_none(
    monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    failure = await failure_of("https://api.invalid/v1")
    assert (failure.kind, failure.code) == (Kind.INVALID_REQUEST, "proxy")
    assert failure.resolution.startswith("Check https_proxy (http://host:port)")

    failure = await failure_of("https://api.invalid:99999/v1")
    assert (failure.kind, failure.code) == (Kind.INVALID_REQUEST, "url")
    assert failure.resolution is None


@pytest.mark.usefixtures("_proxied")
@pytest.mark.parametrize(("trusted", "told"), [("none.pem", True), ("", False)])
async def test_a_certificate_that_is_not_accepted_is_not_the_proxys_fault(
    monkeypatch: pytest.MonkeyPatch, trusted: str, told: bool
) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for said in (b"HTTP/1.1 200 Connected\r\n\r\n", b"HTTP/1.1 400 No TLS\r\n\r\n"):
            await reader.read(4096)  # the request, then the first of TLS
            writer.write(said)
        writer.close()

    monkeypatch.setenv("SSL_CERT_FILE", trusted)
    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("https_proxy", proxy)
        failure = await failure_of("https://api.invalid/v1")
    assert (failure.code, failure.title, failure.resolution) == ("tls", None, None)
    assert failure.message.endswith(f", through the proxy {proxy} (https_proxy)")
    assert ("the file of SSL_CERT_FILE does not exist" in failure.message) is told


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://[S3CRET", "its brackets do not match"),
        ("http://user:S3CRET/x@host", "its port is not a number"),
        ("http://user:S3CRET@", "it names no host"),
        ("localhost:8080/?key=S3CRET", "it does not begin with https://"),
    ],
)
async def test_the_problem_of_an_address_is_reported_without_the_address(
    url: str, why: str
) -> None:
    failure = await failure_of(url)
    assert (failure.kind, failure.code) == (Kind.INVALID_REQUEST, "url")
    assert failure.message == f"invalid URL: [hidden] ({why})"


async def test_closing_a_response_closes_its_connection() -> None:
    async with Server(sends(b"x", end=False)) as server, http_client() as client:
        response = await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
        await anext(response)
        response.close()
        await server.exchanges[0].disconnected()


async def test_idle_connections_can_be_closed_while_others_stay_open() -> None:
    async with Server(sends(b"x")) as server, http_client() as client:
        busy = await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
        await read_all(await client.send(HTTPRequest(server.url), HTTP_TIMEOUT))
        client.close_idle()
        await read_all(await client.send(HTTPRequest(server.url), HTTP_TIMEOUT))
        assert await read_all(busy) == b"x"
        *earlier, last = [exchange._connection for exchange in server.exchanges]
        assert last not in earlier


# -- failures ------------------------------------------------------------------------------------


async def test_nothing_that_listens_is_a_refused_connection() -> None:
    failure = await failure_of(f"http://127.0.0.1:{free_port()}/")
    assert (failure.kind, failure.code) == (Kind.NETWORK, "connection_refused")
    assert failure.phase == "connect"


async def test_a_name_that_does_not_resolve_is_a_dns_failure() -> None:
    failure = await failure_of("http://no-such-host.invalid/")
    assert (failure.kind, failure.code) == (Kind.NETWORK, "dns")


@pytest.mark.parametrize("url", ["http://", "http://[::1", "http://:80/", "nonsense"])
async def test_an_invalid_address_is_an_invalid_request(url: str) -> None:
    failure = await failure_of(url)
    assert (failure.kind, failure.code) == (Kind.INVALID_REQUEST, "url")


async def test_a_port_without_tls_is_a_tls_failure() -> None:
    def plain(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(plain, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        failure = await failure_of(f"https://127.0.0.1:{port}/")
    assert (failure.kind, failure.code) == (Kind.NETWORK, "tls")


async def test_a_server_that_does_not_accept_is_a_timeout_of_the_connection() -> None:
    with socket.socket() as listening, socket.socket() as waiting, socket.socket() as also:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)  # one connection waits to be accepted, the next are not answered
        for sock in (waiting, also):
            sock.setblocking(False)
            sock.connect_ex(listening.getsockname())
        failure = await failure_of(f"http://127.0.0.1:{listening.getsockname()[1]}/", 0.05)
    assert (failure.kind, failure.code) == (Kind.TIMEOUT, "connect")


async def hang_up(exchange: Exchange) -> None:
    exchange.reset()


async def hang_up_later(exchange: Exchange) -> None:
    await exchange.start(200, SSE)
    await exchange.write(b"x")
    exchange.reset()


async def end_too_early(exchange: Exchange) -> None:
    await exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
    exchange._connection._transport.close()  # type: ignore[union-attr]  # it is open


async def talk_nonsense(exchange: Exchange) -> None:
    await exchange.raw(b"220 mail.example ESMTP\r\n\r\n")


async def break_compression(exchange: Exchange) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n"
    await exchange.raw(head + b"x" * 20)
    exchange.ended = True


# (what the server does, kind, code), where the head does not come
AT_FIRST = [
    (hang_up, Kind.NETWORK, {"disconnected", "connection"}),
    (talk_nonsense, Kind.PROTOCOL, {"http"}),
]
# the same, where the body breaks
LATER = [
    (hang_up_later, Kind.NETWORK, {"connection"}),
    (end_too_early, Kind.NETWORK, {"connection"}),
    (break_compression, Kind.PROTOCOL, {"encoding"}),
]


@pytest.mark.parametrize(("answer", "kind", "codes"), AT_FIRST)
async def test_an_answer_that_does_not_come_is_named(
    answer: Any, kind: Kind, codes: set[str]
) -> None:
    async with Server(answer) as server:
        failure = await failure_of(server.url)
    assert failure.kind is kind
    assert failure.code in codes


@pytest.mark.parametrize(("answer", "kind", "codes"), LATER)
async def test_a_body_that_breaks_is_named_and_what_came_before_is_not_lost(
    answer: Any, kind: Kind, codes: set[str]
) -> None:
    async with Server(answer) as server, http_client() as client:
        response = await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
        first = b"" if answer is break_compression else await anext(response)
        with pytest.raises(ProviderFailure) as caught:
            await anext(response)
        response.close()
    assert caught.value.failure.kind is kind
    assert caught.value.failure.code in codes
    assert caught.value.failure.phase == "streaming"
    assert first == (b"" if answer is break_compression else b"x")


async def test_unread_events_before_a_failure_are_not_lost() -> None:
    reset = asyncio.Event()

    async def answer(exchange: Exchange) -> None:
        await exchange.start(200, SSE)
        await exchange.write(b"x")
        exchange.reset()
        reset.set()

    async with Server(answer) as server, http_client() as client:
        response = await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
        await reset.wait()
        await asyncio.sleep(0.01)  # so that the client has seen the reset
        assert await anext(response) == b"x"
        with pytest.raises(ProviderFailure):
            await anext(response)
        response.close()


@pytest.mark.parametrize("politely", [True, False])
async def test_a_pooled_connection_that_the_server_gave_up_is_stale(politely: bool) -> None:
    served = 0

    async def answer(exchange: Exchange) -> None:
        nonlocal served
        served += 1
        if served > 1:
            if politely:
                exchange._connection._transport.close()  # type: ignore[union-attr]  # it is open
            else:
                exchange.reset()
            return
        await sends(b"x")(exchange)

    async with Server(answer) as server, http_client() as client:
        await read_all(await client.send(HTTPRequest(server.url), HTTP_TIMEOUT))
        with pytest.raises(ProviderFailure) as caught:
            await client.send(HTTPRequest(server.url), HTTP_TIMEOUT)
    assert (caught.value.failure.kind, caught.value.failure.code) == (Kind.NETWORK, "stale")


# (what the system raised, kind, code)
RAISED: list[tuple[BaseException, Kind, str]] = [
    (OSError(errno.EMFILE, "x"), Kind.RESOURCE, "no_descriptors"),
    (OSError(errno.ENFILE, "x"), Kind.RESOURCE, "no_descriptors"),
    (OSError(errno.ENOMEM, "x"), Kind.RESOURCE, "no_memory"),
    (OSError(errno.ENOBUFS, "x"), Kind.RESOURCE, "no_memory"),
    (TimeoutError(), Kind.TIMEOUT, "connect"),
    (ConnectionRefusedError(errno.ECONNREFUSED, "x"), Kind.NETWORK, "connection_refused"),
    (ConnectionResetError(errno.ECONNRESET, "x"), Kind.NETWORK, "connection"),
    (ssl.SSLError(1, "x"), Kind.NETWORK, "tls"),
    (OSError(errno.ENETUNREACH, "x"), Kind.NETWORK, "connection"),
    (ValueError("Newline in headers"), Kind.PROTOCOL, "encoding"),
]


@pytest.mark.parametrize(("error", "kind", "code"), RAISED, ids=lambda value: repr(value)[:40])
def test_system_errors_have_a_kind_and_a_code(error: BaseException, kind: Kind, code: str) -> None:
    from swink_core.providers.network import failure_of

    failure = failure_of(error, "connect")
    assert (failure.kind, failure.code) == (kind, code)
    assert failure.message
    assert failure.exception is error


def test_system_errors_are_reported_with_their_message_or_name() -> None:
    from swink_core.providers.network import failure_of

    raised = (ConnectionResetError("the cable is out"), ConnectionResetError())
    assert [failure_of(error, "connect").message for error in raised] == [
        "the cable is out",
        "ConnectionResetError",
    ]

"""Connections: which are used again, in which event loop, and what is never put on one."""

from __future__ import annotations

import asyncio
import gzip
import inspect
import os
import select
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from certificates import openssl_certificate
from fakes import http_client, read_all

import swink_core.client as clients
from swink_core import ProviderFailure, UsageError
from swink_core import StreamErrorKind as Kind
from swink_core.providers import AiohttpClient, HTTPRequest, aiohttp_insides
from swink_core.providers.aiohttp_insides import Connector
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.freeze import FREEZE

pytestmark = pytest.mark.usefixtures("transport")

TIMEOUT = 10.0


def answer(body: bytes, head: str = "HTTP/1.1 200 OK", more: str = "") -> bytes:
    return f"{head}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def pools_of(client: Any) -> list[Any]:
    """Return the pools of a client, one for each event loop; each has `closed`."""
    kept = getattr(client, "_pools", client._sessions)
    return [pool for _, pool in kept.values()]


# -- what arrives on a connection that nobody uses -----------------------------------------------


class LateServer(LoopbackServer):
    """Answers, and says something more on the first connection once the answer `was_read`."""

    def __init__(self, late: bytes, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.late = late
        self.was_read, self.said = threading.Event(), threading.Event()

    async def respond(self, exchange: Exchange) -> None:
        number = len(self.exchanges)
        await exchange.raw(answer(b"right %d" % number))
        exchange.ended = True
        if number == 1:
            await asyncio.to_thread(self.was_read.wait)
            await exchange.raw(self.late)
            self.said.set()


# (name, what is said)
LATE = [
    ("a_second_answer", answer(b"meant for somebody else")),
    ("half_an_answer", answer(b"meant for somebody else")[:30]),
    ("an_answer_in_chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nwrong\r\n"),
    ("a_complaint_about_the_time", answer(b"", "HTTP/1.1 408 Late", "Connection: close\r\n")),
    ("a_blank_line", b"\r\n"),
    ("no_http", b"\x00\x01\x02"),
    ("very_many_answers", answer(b"wrong") * 10_000),
]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Both sides of a TLS configuration."""
    key, certificate = openssl_certificate(tmp_path_factory.mktemp("tls"))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.create_default_context(cafile=str(certificate))
    client.check_hostname = False
    return server, client


@pytest.fixture
def trusted(
    tls: tuple[ssl.SSLContext, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> ssl.SSLContext:
    """The server's side of a TLS configuration that each HTTP client trusts."""
    server, client = tls
    monkeypatch.setattr(aiohttp_insides, "Connector", partial(Connector, ssl=client))
    if find_spec("swink_transport_httptools"):
        monkeypatch.setattr("swink_transport_httptools.pool._tls", lambda: client)
    return server


async def test_without_a_poll_a_connection_that_spoke_while_idle_is_not_used_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ask, waits = select.select, set()

    def asked(*sockets: Any) -> Any:
        waits.add(sockets[-1])
        return ask(*sockets)

    monkeypatch.delattr(select, "poll")
    monkeypatch.setattr(select, "select", asked)
    with LateServer(b"HTTP/1.1 408 Request Timeout\r\n\r\n") as server:
        async with http_client() as client:
            for number in range(1, 4):
                assert await _ask(client, server.url, b"") == b"right %d" % number
                server.was_read.set()
                server.said.wait()
        assert len({id(exchange._connection) for exchange in server.exchanges}) == 2
    assert waits == {0}


class Idle:
    """A pooled connection of aiohttp over this socket."""

    should_close = False

    def __init__(self, socket: socket.socket) -> None:
        self.transport, self._socket = self, socket

    def get_extra_info(self, name: str) -> socket.socket:
        return self._socket


@pytest.mark.skipif(os.name == "nt", reason="there a socket is no file")
def test_a_connection_may_be_where_the_standard_input_was() -> None:
    here, there = socket.socketpair()
    stdin = os.dup(0)
    try:
        os.dup2(here.fileno(), 0)
        first = socket.socket(fileno=0)
        assert not aiohttp_insides._is_spoilt(Idle(first))
        there.send(b"x")
        assert aiohttp_insides._is_spoilt(Idle(first))
        first.detach()
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
        here.close()
        there.close()


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("looked", [True, False], ids=["noticed", "not_noticed_yet"])
@pytest.mark.parametrize("late", [case[1] for case in LATE], ids=[case[0] for case in LATE])
async def test_a_connection_that_spoke_while_idle_is_never_used(
    late: bytes, looked: bool, scheme: str, request: pytest.FixtureRequest
) -> None:
    server_tls = request.getfixturevalue("trusted") if scheme == "https" else None
    with LateServer(late, server_tls) as server:
        async with http_client() as client:
            for number in range(1, 4):
                assert await _ask(client, server.url, b"") == b"right %d" % number
                server.was_read.set()
                if number == 1 and looked:
                    await asyncio.to_thread(server.said.wait)
                    await asyncio.sleep(0.05)
                else:
                    server.said.wait()  # the loop does not look at its sockets meanwhile
        # the first connection was given up, the second kept
        assert len({id(exchange._connection) for exchange in server.exchanges}) == 2


async def test_data_on_an_idle_connection_is_discarded() -> None:
    beyond = 2**27 // len(answer(b"wrong"))  # more than a system lets two sockets hold
    with LateServer(answer(b"wrong") * beyond) as server:
        async with http_client() as client:
            await read_all(await client.send(HTTPRequest(server.url), TIMEOUT))
            server.was_read.set()
            assert not await asyncio.to_thread(server.said.wait, 0.3)  # it is not read on


# -- event loops ---------------------------------------------------------------------------------


class EchoServer(LoopbackServer):
    """Answers with the request's body."""

    async def respond(self, exchange: Exchange) -> None:
        await exchange.raw(answer(exchange.body))
        exchange.ended = True


async def _ask(client: AiohttpClient, url: str, body: bytes) -> bytes:
    return await read_all(await client.send(HTTPRequest(url, body), TIMEOUT))


def test_a_client_works_in_one_event_loop_after_another() -> None:
    client = clients.AiohttpClient()
    with EchoServer() as server:
        for body in (b"1", b"2", b"3"):
            assert asyncio.run(_ask(client, server.url, body)) == body
        assert len(pools_of(client)) == 1  # those of the loops before are gone
        asyncio.run(client.aclose())


def test_uvloop_does_as_well() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")

    async def ask(url: str, server: LateServer) -> list[bytes]:
        async with http_client() as client:
            said = []
            for _ in range(3):
                said.append(await read_all(await client.send(HTTPRequest(url), TIMEOUT)))
                server.was_read.set()
                server.said.wait()
            return said

    with LateServer(answer(b"meant for somebody else")) as server:
        assert uvloop.run(ask(server.url, server)) == [b"right 1", b"right 2", b"right 3"]
    assert len({id(exchange._connection) for exchange in server.exchanges}) == 2


class Cut(LoopbackServer):
    """Hangs up in the middle of an answer."""

    async def respond(self, exchange: Exchange) -> None:
        await exchange.raw(answer(b"half of what was promised")[:-9])
        exchange.close()


def test_a_cut_in_uvloop_is_a_failure_and_what_came_is_read() -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")
    came: list[bytes] = []

    async def ask(url: str) -> None:
        async with http_client() as client:
            with closing(await client.send(HTTPRequest(url), TIMEOUT)) as response:
                async for data in response:
                    came.append(data)

    with Cut() as server, pytest.raises(ProviderFailure):
        uvloop.run(ask(server.url))
    assert b"".join(came) == b"half of what was"


def test_a_client_works_in_event_loops_of_several_threads_at_once() -> None:
    client = clients.AiohttpClient()
    together = threading.Barrier(8)
    found: list[bytes] = []

    async def twice(body: bytes) -> None:
        for _ in range(2):
            found.append(await _ask(client, server.url, body))
            await asyncio.to_thread(together.wait)

    with EchoServer() as server:
        bodies = [b"%d" % number for number in range(8)]
        threads = [threading.Thread(target=lambda b=b: asyncio.run(twice(b))) for b in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == sorted(bodies * 2)


def test_closing_a_client_closes_its_connections_in_other_running_loops() -> None:
    client = clients.AiohttpClient()
    asked, closed, noticed = threading.Event(), threading.Event(), threading.Event()

    async def other() -> None:
        await _ask(client, server.url, b"x")
        (pool,) = pools_of(client)
        asked.set()
        await asyncio.to_thread(closed.wait)
        while not pool.closed:  # noqa: ASYNC110  # there is no event
            await asyncio.sleep(0.001)
        noticed.set()

    async def here() -> None:
        await asyncio.to_thread(asked.wait)
        await client.aclose()
        closed.set()

    with EchoServer() as server:
        thread = threading.Thread(target=lambda: asyncio.run(asyncio.wait_for(other(), TIMEOUT)))
        thread.start()
        asyncio.run(here())
        thread.join()
    assert noticed.is_set()


@pytest.mark.filterwarnings("error")
def test_a_loop_that_shuts_down_closes_the_connections_of_a_client_that_nobody_closed() -> None:
    client = clients.AiohttpClient()
    with EchoServer() as server:
        asyncio.run(_ask(client, server.url, b"x"))
        (pool,) = pools_of(client)
        assert pool.closed


async def test_a_closed_client_refuses() -> None:
    with EchoServer() as server:
        client = clients.AiohttpClient()
        assert await _ask(client, server.url, b"x") == b"x"
        await client.aclose()
        await client.aclose()
        with pytest.raises(UsageError, match="closed"):
            await client.send(HTTPRequest(server.url), TIMEOUT)
        assert len(server.exchanges) == 1


# -- headers and addresses -----------------------------------------------------------------------

# (name, headers, what it is told)
UNSENDABLE = [
    ("a_line_break", {"X-A": "a\r\nEvil: 1"}, "the header 'X-A' contains a line break"),
    ("a_key_of_two_lines", {"Authorization": "Bearer k\ney"}, "'Authorization' contains a line"),
    ("a_name_of_two_lines", {"X-A\r\nEvil": "1"}, "contains a line break"),
    ("a_nul", {"X-A": "a\0"}, "the header 'X-A' contains an invalid character"),
    ("half_a_character", {"X-A": "\ud800"}, "the header 'X-A' contains an invalid character"),
    ("no_name", {"": "1"}, "the header '' has an invalid name"),
    ("a_name_of_two_words", {"X A": "1"}, "the header 'X A' has an invalid name"),
    ("a_name_with_a_colon", {"X:A": "1"}, "the header 'X:A' has an invalid name"),
    ("a_name_that_is_no_ascii", {"X-Ä": "1"}, "the header 'X-Ä' has an invalid name"),
    ("a_length", {"content-Length": "5"}, "'content-Length' is set by the HTTP client"),
    ("a_form_of_the_body", {"Transfer-Encoding": "chunked"}, "is set by the HTTP client"),
]


@pytest.mark.parametrize("scheme", ["http", "ws"])
@pytest.mark.parametrize(
    ("headers", "told"), [case[1:] for case in UNSENDABLE], ids=[case[0] for case in UNSENDABLE]
)
async def test_a_header_that_cannot_be_sent_is_the_callers_mistake(
    headers: dict[str, str], told: str, scheme: str
) -> None:
    with EchoServer() as server:
        url = server.url.replace("http", scheme)
        async with http_client() as client:
            with pytest.raises(ProviderFailure) as caught:
                await client.send(HTTPRequest(url, b"x", headers), TIMEOUT)
        failure = caught.value.failure
        assert (failure.kind, failure.phase) == (Kind.INVALID_REQUEST, "request")
        assert failure.code == "header"
        assert told in str(failure.message)
        assert "Evil: 1" not in str(failure.message)
        assert failure.resolution == "Check the headers and the API key."
        assert server.exchanges == []


# (name, user information, headers, what is sent)
USERS: list[tuple[str, str, dict[str, str], str | None]] = [
    ("of_the_address", "me:p%40ss@", {}, "Basic bWU6cEBzcw=="),
    ("none", "", {}, None),
    ("of_the_provider", "me:pass@", {"authorization": "Bearer k"}, "Bearer k"),
]


@pytest.mark.parametrize(
    ("user", "headers", "sent"), [case[1:] for case in USERS], ids=[case[0] for case in USERS]
)
async def test_user_information_is_sent_where_the_provider_has_no_credentials_of_its_own(
    user: str, headers: dict[str, str], sent: str | None
) -> None:
    with EchoServer() as server:
        async with http_client() as client:
            url = server.url.replace("//", f"//{user}")
            await read_all(await client.send(HTTPRequest(url, b"x", headers), TIMEOUT))
        assert server.exchanges[0].headers.get("authorization") == sent


# -- bodies that grow ----------------------------------------------------------------------------

BOMB_SIZE = 64 * 1024 * 1024

# (encoding, how it is made)
BOMBS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("identity", bytes),
]


class BombServer(LoopbackServer):
    """Answers with little that is decompressed to much."""

    def __init__(self, encoding: str, body: bytes) -> None:
        super().__init__()
        self._answer = answer(body, more=f"Content-Encoding: {encoding}\r\n")

    async def respond(self, exchange: Exchange) -> None:
        await exchange.raw(self._answer)
        exchange.ended = True


@pytest.mark.parametrize(("encoding", "compress"), BOMBS, ids=[case[0] for case in BOMBS])
async def test_a_body_that_grows_comes_in_bounded_pieces_and_lets_others_in(
    encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    worst = turns = 0.0

    async def others() -> None:
        nonlocal worst, turns
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            worst, last, turns = max(worst, now - last), now, turns + 1

    with BombServer(encoding, compress(b"0" * BOMB_SIZE)) as server:
        async with http_client() as client:
            response = await client.send(HTTPRequest(server.url), TIMEOUT)
            task = asyncio.create_task(others())
            sizes = [len(data) async for data in response]
            task.cancel()
    assert sum(sizes) == BOMB_SIZE
    assert max(sizes) <= 2 * 1024 * 1024
    assert turns > 30
    assert worst < FREEZE


# -- aiohttp's insides ---------------------------------------------------------------------------


@pytest.mark.parametrize("place", sorted(aiohttp_insides.NEEDED))
def test_aiohttp_still_has_what_is_reached_of_its_insides(place: str) -> None:
    owner, _, name = place.partition(".")
    modules = (aiohttp, aiohttp.client_proto)
    cls = next(vars(module)[owner] for module in modules if owner in vars(module))
    made = "".join(inspect.getsource(base) for base in cls.__mro__ if "aiohttp" in base.__module__)
    assert hasattr(cls, name) or f"self.{name} =" in made or f"self.{name}:" in made, (
        f"aiohttp {aiohttp.__version__} has no {place}, which {aiohttp_insides.NEEDED[place]}"
    )


def test_a_pooled_connection_is_asked_for_and_given_back_as_the_connector_expects() -> None:
    for name in ("_get", "_release"):
        own = inspect.signature(vars(Connector)[name])
        theirs = inspect.signature(getattr(aiohttp.TCPConnector, name))
        assert list(own.parameters) == list(theirs.parameters), name


def test_nothing_else_reaches_into_aiohttp() -> None:
    root = next(p for p in Path(__file__).parents if (p / "pyproject.toml").exists())
    inside = {place.partition(".")[2] for place in aiohttp_insides.NEEDED} - {"should_close"}
    for path in (root / "swink_core").rglob("*.py"):
        if path.stem != "aiohttp_insides":
            text = path.read_text("utf-8")
            assert not [name for name in inside - {"_get"} if f"content.{name}" in text], path
            assert "connector._" not in text, path
            assert "socket._" not in text, path

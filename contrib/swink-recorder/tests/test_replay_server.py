"""The loopback server and the replay of recordings over real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from swink_core import Client, RetryPolicy, StreamErrorKind, TextDelta
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_testing.acme import acme_host
from swink_testing.calls import client_with
from swink_testing.chunking import byte_by_byte
from swink_testing.clock import ManualClock

SSE = {"Content-Type": "text/event-stream", "X-Trace": "abc"}
HELLO = b'data: {"text": "Hello"}\n\n'
WORLD = b'data: {"text": " world"}\n\n'
STOP = b'data: {"stop": "stop"}\n\n'


def recording(*pieces: bytes, seconds: float = 1.0, **changes: Any) -> Recording:
    """Pieces that came so many seconds apart, the first at 0."""
    chunks = [(number * seconds, len(piece)) for number, piece in enumerate(pieces)]
    facts = {"headers": dict(SSE), **changes}
    return Recording("acme", "large", b"".join(pieces), chunks, **facts)


ANSWER = recording(HELLO, WORLD, STOP)
BUSY = recording(
    b'{"error": {"code": "busy"}}', status=529, headers={"Content-Type": "application/json"}
)


def acme(**options: Any) -> Client:
    return client_with(host=acme_host(), api_key="key-1234567", retry=RetryPolicy.none(), **options)


async def fetch(url: str, data: Any = None) -> tuple[aiohttp.ClientResponse, bytes]:
    async with aiohttp.ClientSession() as session, session.post(url, data=data) as response:
        return response, await response.read()


# -- replaying -------------------------------------------------------------------------------


async def test_a_recording_is_replayed_to_the_adapter_that_asks() -> None:
    async with ReplayServer() as server, acme() as client:
        url = server.add("case", ANSWER)
        message = await client.complete("acme/large", "Hello", base_url=url)

    assert message.text == "Hello world"


async def test_the_request_is_kept_for_assertions() -> None:
    async with ReplayServer() as server, acme() as client:
        url = server.add("case", ANSWER)
        await client.complete("acme/large", "Hello", base_url=url)

    exchange = server.exchanges[0]
    assert (exchange.method, exchange.path) == ("POST", "/case/chat")
    assert exchange.json == {"model": "large", "messages": 1}
    assert exchange.headers["authorization"] == "Bearer key-1234567"
    assert exchange.ended
    assert exchange.disconnected_at is None


async def test_the_query_is_no_part_of_the_path() -> None:
    async with ReplayServer() as server:
        await fetch(f"{server.add('case', ANSWER)}/any/path?alt=sse&key=a%20b")

    assert server.exchanges[0].path == "/case/any/path"
    assert server.exchanges[0].query == {"alt": "sse", "key": "a b"}


async def test_status_and_headers_are_those_of_the_recording() -> None:
    limited = recording(b"{}", status=429, headers={"Retry-After": "7"})
    async with ReplayServer() as server:
        response, body = await fetch(server.add("case", limited))

    assert (response.status, response.headers["Retry-After"], body) == (429, "7", b"{}")


async def test_headers_of_the_recorded_connection_are_left_out() -> None:
    headers = {
        **SSE,
        "content-length": "1",
        "Content-Encoding": "br",
        "Transfer-Encoding": "identity",
        "Connection": "close",
    }
    async with ReplayServer() as server:
        response, body = await fetch(server.add("case", recording(HELLO, headers=headers)))

    assert body == HELLO
    assert response.headers["X-Trace"] == "abc"
    assert response.headers["Transfer-Encoding"] == "chunked"
    assert not {"Content-Encoding", "Content-Length", "Connection"} & set(response.headers)


async def test_recordings_of_one_key_are_given_in_turn_and_the_last_one_stays() -> None:
    async with ReplayServer() as server, acme() as client:
        url = server.add("case", BUSY, ANSWER)
        async with client.stream("acme/large", "Hello", base_url=url) as stream:
            kinds = [getattr(event, "error_kind", None) async for event in stream]
        texts = [
            (await client.complete("acme/large", "Hello", base_url=url)).text for _ in range(2)
        ]

    assert kinds[-1] is StreamErrorKind.OVERLOADED
    assert texts == ["Hello world", "Hello world"]


async def test_keys_are_kept_apart() -> None:
    async with ReplayServer() as server, acme() as client:
        first, second = server.add("first", ANSWER), server.add("second", recording(WORLD, STOP))
        await client.complete("acme/large", "Hello", base_url=second)
        await client.complete("acme/large", "Hello", base_url=first)

    assert [len(server.exchanges_of(key)) for key in ("first", "second", "third")] == [1, 1, 0]


async def test_another_key_is_not_found() -> None:
    async with ReplayServer() as server:
        response, said = await fetch(f"{server.url}/other/chat")

    assert (response.status, said) == (404, b"no recording is served below /other")


@pytest.mark.parametrize(("key", "recordings"), [("", [ANSWER]), ("a/b", [ANSWER]), ("a", [])])
async def test_a_key_that_cannot_be_served_is_refused(
    key: str, recordings: list[Recording]
) -> None:
    async with ReplayServer() as server:
        with pytest.raises(ValueError, match="requires a key without a slash and a recording"):
            server.add(key, *recordings)


# -- time and boundaries ---------------------------------------------------------------------


async def reads_of(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    while data := await response.content.readany():
        yield data


@pytest.mark.parametrize("speed", [1.0, 4.0])
async def test_paced_pieces_come_in_their_time_and_as_they_were_read(speed: float) -> None:
    body = "data: Grüße\n\n".encode()
    pieces = byte_by_byte(body)
    clock = ManualClock()
    async with ReplayServer(speed, clock) as server, aiohttp.ClientSession() as session:
        url = server.add("case", recording(*pieces, seconds=2.0))
        async with session.post(url) as response:
            reads = reads_of(response)
            seen = [(0.0, await anext(reads))]
            for _ in pieces[1:]:
                await clock.advance(2.0 / speed)
                seen.append((clock.time(), await anext(reads)))

    assert seen == [(number * 2.0 / speed, piece) for number, piece in enumerate(pieces)]


async def test_nothing_comes_before_its_time() -> None:
    clock = ManualClock()
    async with ReplayServer(1.0, clock) as server, aiohttp.ClientSession() as session:
        url = server.add("case", recording(HELLO, WORLD, seconds=5.0))
        async with session.post(url) as response:
            reads = reads_of(response)
            await anext(reads)
            await clock.advance(4.9)
            early = server.exchanges[0].pieces
            await clock.advance(0.1)
            late = await anext(reads)

    assert early == 1
    assert late == WORLD


async def test_the_parser_sees_the_pieces_of_a_paced_replay() -> None:
    clock = ManualClock()
    pieces = [HELLO[:9], HELLO[9:] + WORLD[:3], WORLD[3:], STOP]
    async with ReplayServer(1.0, clock) as server, acme() as client:
        url = server.add("case", recording(*pieces))
        async with client.stream("acme/large", "Hello", base_url=url) as stream:
            reads: asyncio.Queue[bytes] = asyncio.Queue()
            stream.call.taps.append(lambda _, __, data: reads.put_nowait(data))
            result = asyncio.create_task(stream.result())
            seen = []
            for _ in pieces:
                seen.append(await reads.get())
                await clock.advance(1.0)
            await result

    assert seen == pieces


async def test_speed_zero_waits_for_nothing() -> None:
    clock = ManualClock()
    async with ReplayServer(0, clock) as server, acme() as client:
        url = server.add("case", recording(HELLO, WORLD, STOP, seconds=3600.0))
        message = await client.complete("acme/large", "Hello", base_url=url)

    assert message.text == "Hello world"
    assert clock.sleeps == []


# -- the client leaves -----------------------------------------------------------------------


async def test_the_server_sees_the_client_leave() -> None:
    async with ReplayServer(1.0, ManualClock()) as server, acme() as client:
        url = server.add("case", ANSWER)
        async with client.stream("acme/large", "Hello", base_url=url) as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
            left_at = time.monotonic()
        seen_at = await server.exchanges[0].disconnected()

    assert 0 <= seen_at - left_at < 5
    assert server.exchanges[0].pieces == 1
    assert not server.exchanges[0].ended


async def test_a_client_that_reads_to_the_end_has_not_left() -> None:
    async with ReplayServer() as server, acme() as client:
        url = server.add("case", ANSWER)
        await client.complete("acme/large", "Hello", base_url=url)
        await client.aclose()

    assert server.exchanges[0].disconnected_at is None


async def test_connections_are_kept_for_the_next_request() -> None:
    async with ReplayServer() as server, acme() as client:
        url = server.add("case", ANSWER)
        for _ in range(3):
            await client.complete("acme/large", "Hello", base_url=url)

        assert len(server._connections) == 1


async def test_closing_the_server_resets_open_connections() -> None:
    server = ReplayServer(1.0, ManualClock())
    async with acme() as client:
        async with server:
            url = server.add("case", ANSWER)
            stream = client.stream("acme/large", "Hello", base_url=url)
            events = aiter(stream)
            while not isinstance(await anext(events), TextDelta):
                pass
        rest = [event async for event in events]

    assert rest[-1].error_kind is StreamErrorKind.NETWORK


# -- for synchronous code --------------------------------------------------------------------


def test_a_server_runs_in_a_separate_thread() -> None:
    async def ask(url: str) -> str:
        async with acme() as client:
            return (await client.complete("acme/large", "Hello", base_url=url)).text

    with ReplayServer() as server:
        url = server.add("case", ANSWER)
        texts = [asyncio.run(ask(url)) for _ in range(2)]

    assert texts == ["Hello world", "Hello world"]
    assert len(server.exchanges) == 2

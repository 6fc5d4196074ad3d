"""Answers over WebSockets, from a server on this machine, and the way back to HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import WSMsgType, web
from attrs import evolve
from responses_cases import STREAMS

from swink_core import (
    Client,
    Done,
    Error,
    Model,
    ModelInfo,
    Notice,
    RetryPolicy,
    StopReason,
    TextDelta,
    Timeouts,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    SSEDecoder,
)
from swink_provider_openai import OpenAIProvider
from swink_provider_openai.responses.socket import first_message
from swink_recorder.capture import Tape
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_testing.calls import client_with
from swink_testing.driver import drive_bytes, fold

TEXT = {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}
COMPLETED = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed"}}
ANSWER = [TEXT, COMPLETED]

PATIENCE = Timeouts(connect=5.0, first_event=10.0, idle=10.0)
ONCE = RetryPolicy.none()
AT_ONCE = RetryPolicy(base=0.0)


class Server:
    """Answer POST over HTTP and GET over WebSockets, and store the requests.

    `refusal` is the status for whoever wants a WebSocket, `None` for none. `plays` are the
    messages of each socket in turn, the last for all that follow; `stays` leaves sockets open.
    """

    def __init__(self) -> None:
        self.refusal: int | None = None
        self.plays: list[list[Any]] = [ANSWER]
        self.stays = False
        self.opened = 0
        self.asked: list[Any] = []
        self.headers: list[Any] = []
        self.over_http = 0
        self.left = asyncio.Event()
        self.url = ""

    async def get(self, request: web.Request) -> web.StreamResponse:
        self.opened += 1
        self.headers.append(request.headers)
        if self.refusal is not None:
            headers = {"Location": self.url} if 300 <= self.refusal < 400 else {}
            return web.Response(status=self.refusal, headers=headers)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.asked.append(await socket.receive_json())
        for frame in self.plays[min(self.opened, len(self.plays)) - 1]:
            await socket.send_str(frame if isinstance(frame, str) else _json(frame))
        if self.stays:
            message = await socket.receive()
            assert message.type in (WSMsgType.CLOSE, WSMsgType.CLOSED, WSMsgType.ERROR)
            self.left.set()
        return socket

    async def post(self, request: web.Request) -> web.StreamResponse:
        self.over_http += 1
        self.asked.append(await request.json())
        body = "".join(f"data: {_json(frame)}\n\n" for frame in ANSWER)
        return web.Response(text=body, content_type="text/event-stream")


def _json(data: Any) -> str:
    return msgspec.json.encode(data).decode()


@asynccontextmanager
async def serve() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_get("/v1/responses", server.get)
    app.router.add_post("/v1/responses", server.post)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


def client(server: Server, retry: RetryPolicy = ONCE) -> Client:
    return client_with(
        api_key="test", base_url=server.url, retry=retry, timeouts=PATIENCE, transport="websocket"
    )


async def ask(client: Client, **options: Any) -> list[Any]:
    return [event async for event in client.stream("openai/any", "Hi", **options)]


def notices(events: list[Any]) -> list[str]:
    return [event.detail for event in events if isinstance(event, Notice)]


async def test_an_answer_over_a_websocket() -> None:
    async with serve() as server, client(server) as asking:
        events = await ask(asking, max_tokens=50)

    assert fold(events).text == "Hi"
    assert isinstance(events[-1], Done)
    assert events[-1].response_id == "resp_1"
    assert notices(events) == []
    assert server.over_http == 0
    assert server.headers[0]["Authorization"] == "Bearer test"
    assert server.asked == [{
        "type": "response.create", "model": "any", "store": False, "max_output_tokens": 50,
        "include": ["reasoning.encrypted_content"], "input": [{"role": "user", "content": "Hi"}],
    }]  # fmt: skip


async def test_a_socket_that_stays_open_ends_with_the_answer() -> None:
    async with serve() as server, client(server) as asking:
        server.stays = True
        events = await ask(asking)
        await asyncio.wait_for(server.left.wait(), 5)

    assert isinstance(events[-1], Done)


async def test_messages_may_hold_line_breaks_between_their_tokens() -> None:
    async with serve() as server, client(server) as asking:
        server.plays = [[_json(TEXT).replace(",", ",\r\n\n"), COMPLETED]]
        events = await ask(asking)

    assert fold(events).text == "Hi"


async def test_what_came_over_a_websocket_is_recorded_and_plays_again(tmp_path: Path) -> None:
    async with serve() as server, client(server) as asking:
        stream = asking.stream("openai/gpt-5.6-terra", "Hi")
        tape = Tape(stream.call)
        message = await stream.result()
    tape.recording(message).save(tmp_path / "kept", stream.call.secrets)

    kept = Recording.load(tmp_path / "kept")
    async with ReplayServer() as replay, client_with() as asking:
        url = replay.add("kept", kept)
        again = await asking.stream(
            "openai/gpt-5.6-terra", "Hi", base_url=url, api_key="test"
        ).result()

    assert (kept.status, kept.body_file, len(kept.chunks)) == (200, "body.sse", 2)
    assert (kept.request.path, kept.request.body["type"]) == ("/v1/responses", "response.create")
    assert (again.content, again.stop_reason) == (message.content, message.stop_reason)
    assert again.text == "Hi"


@pytest.mark.parametrize("case", STREAMS[:8], ids=lambda case: case.name)
async def test_recorded_events_mean_the_same_over_a_websocket(case: Any) -> None:
    decoder = SSEDecoder()
    frames = [frame.decode() for frame in [*decoder.feed(case.body), *decoder.finish()]]
    model = Model("openai", "any", ModelInfo("any", api="responses"))
    expected = fold(await drive_bytes(OpenAIProvider("openai"), model, [case.body]))
    async with serve() as server, client(server) as asking:
        server.plays = [frames]
        found = fold(await ask(asking))

    assert (found.content, found.usage) == (expected.content, expected.usage)


# -- the way back to HTTP ----------------------------------------------------------------------


@pytest.mark.parametrize("status", [426, 404, 501, 200, 302, 403])
async def test_a_refused_upgrade_goes_on_over_http_and_is_remembered(status: int) -> None:
    async with serve() as server, client(server) as asking:
        server.refusal = status
        first, second = await ask(asking), await ask(asking)

    assert server.opened == 1
    assert server.over_http == 2
    assert "type" not in server.asked[0]
    assert server.asked[0]["stream"] is True
    for events in (first, second):
        assert fold(events).text == "Hi"
        assert isinstance(events[-1], Done)
        [detail] = notices(events)
        assert str(status) in detail


async def test_another_client_tries_again() -> None:
    async with serve() as server:
        server.refusal = 426
        async with client(server) as asking:
            await ask(asking)
        server.refusal = None
        async with client(server) as asking:
            events = await ask(asking)

    assert notices(events) == []
    assert server.opened == 2


async def test_a_drop_is_a_failure_and_never_an_answer() -> None:
    async with serve() as server, client(server) as asking:
        server.plays = [[TEXT]]
        terminal = (await ask(asking))[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.NETWORK


async def test_the_second_drop_in_a_row_is_the_last() -> None:
    async with serve() as server, client(server, AT_ONCE) as asking:
        server.plays = [[]]
        events = await ask(asking)

    assert (server.opened, server.over_http) == (2, 1)
    assert fold(events).text == "Hi"
    [detail] = notices(events)
    assert "dropped 2" in detail


async def test_an_answer_between_two_drops_forgives_the_first() -> None:
    async with serve() as server, client(server) as asking:
        server.plays = [[], ANSWER, [], ANSWER]
        ends = [type((await ask(asking))[-1]) for _ in range(4)]

    assert ends == [Error, Done, Error, Done]
    assert (server.opened, server.over_http) == (4, 0)


async def test_a_server_that_is_not_there_is_no_refusal() -> None:
    async with serve() as server:
        pass
    async with client(server) as asking:
        terminal = (await ask(asking))[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.NETWORK
    assert terminal.code == "connection_refused"


# -- the end of a socket -----------------------------------------------------------------------


async def test_leaving_closes_the_socket() -> None:
    async with serve() as server, client(server) as asking:
        server.plays, server.stays = [[TEXT]], True
        async with asking.stream("openai/any", "Hi") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    break
        await asyncio.wait_for(server.left.wait(), 5)

    assert stream.message.stop_reason is StopReason.ABORTED


async def test_an_idle_socket_is_closed() -> None:
    short = Timeouts(connect=5.0, first_event=10.0, idle=0.05)
    async with serve() as server, client(server) as asking:
        server.plays, server.stays = [[TEXT]], True
        terminal = (await ask(asking, timeouts=short))[-1]
        await asyncio.wait_for(server.left.wait(), 5)

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.TIMEOUT


async def test_an_error_over_a_websocket_is_what_it_would_be_over_http() -> None:
    error = {"type": "error", "status": 429, "error": {"code": "x", "message": "Too fast."}}
    async with serve() as server, client(server) as asking:
        server.plays, server.stays = [[error]], True
        terminal = (await ask(asking))[-1]
        await asyncio.wait_for(server.left.wait(), 5)

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.THROTTLED


# -- who is asked so ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "transport", "over_http"),
    [
        ("offered", "auto", 1),
        ("offered", "sse", 1),
        ("offered", "websocket", 0),
        ("preferred", "auto", 0),
        ("preferred", "sse", 1),
    ],
)
async def test_the_row_decides_what_auto_means(row: str, transport: str, over_http: int) -> None:
    async with serve() as server, client(server) as asking:
        provider = asking.host.bind("openai").provider
        provider.dialect = evolve(provider.dialect, websocket=row)
        settings = {"api": "responses"}
        message = await asking.complete("openai/any", "Hi", settings=settings, transport=transport)

    assert message.text == "Hi"
    assert (server.over_http, server.opened) == (over_http, 1 - over_http)


async def test_a_row_without_websockets_refuses_them() -> None:
    async with client_with(api_key="test", retry=ONCE) as asking:
        terminal = [e async for e in asking.stream("groq/any", "Hi", transport="websocket")][-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is Kind.UNSUPPORTED


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://api.openai.com/v1/responses", "wss://api.openai.com/v1/responses"),
        ("http://127.0.0.1:1/v1/responses", "ws://127.0.0.1:1/v1/responses"),
    ],
)
def test_the_address_of_a_socket(url: str, expected: str) -> None:
    asked = {"model": "m", "stream": True, "background": False}

    assert first_message(url, asked) == (expected, {"type": "response.create", "model": "m"})

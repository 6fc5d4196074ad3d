"""The Responses API over WebSockets, and conversations by the id of an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from serving import Scripted, ask, serving

import swink_core as swink
from swink_core import AssistantMessage, StopReason, SystemMessage, TextBlock, UserMessage
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import MemoryLedger
from swink_gateway.protocols.responses.protocol import ResponsesEncoder
from swink_gateway.serving.conversation_store import ConversationStore, Kept
from swink_gateway.serving.responses import MOST_WAITING
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

HELLO = [swink.Start(), swink.TextStart(0), swink.TextDelta(0, "Hello"), swink.TextEnd(0)]
ANSWER = [*HELLO, swink.Done(StopReason.STOP, response_id="r1", model="m1")]
CREATE = {"type": "response.create", "model": "echo/echo", "input": "Hi"}


@asynccontextmanager
async def connected(*plugins: Any) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    async with (
        serving(*plugins) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses", compress=15) as socket,
    ):
        yield socket


async def answer(socket: aiohttp.ClientWebSocketResponse, asked: Any) -> list[dict[str, Any]]:
    """Send a request and return the events up to the last."""
    await (socket.send_str(asked) if isinstance(asked, str) else socket.send_json(asked))
    events = []
    while True:
        event = await socket.receive_json()
        events.append(event)
        if event["type"] in ("response.completed", "response.failed", "error"):
            return events


async def test_one_frame_is_one_event() -> None:
    async with connected(Scripted(ANSWER)) as socket:
        events = await answer(socket, CREATE)
    assert events[0]["type"] == "response.created"
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "Hello"


async def test_a_warm_up_is_answered_without_a_model_and_can_be_continued() -> None:
    upstream = Scripted(ANSWER)
    told = {"role": "developer", "content": "Be brief."}
    async with connected(upstream) as socket:
        warm = await answer(socket, {**CREATE, "input": [told], "generate": False})
        assert [event["type"] for event in warm] == ["response.created", "response.completed"]
        assert warm[-1]["response"]["output"] == []
        assert upstream.calls == []
        follows = {**CREATE, "previous_response_id": warm[-1]["response"]["id"]}
        await answer(socket, follows)
    assert upstream.context.messages == [SystemMessage("Be brief."), UserMessage("Hi")]


class BrokenOnce(MemoryLedger):
    """A ledger whose first call raises an unexpected exception."""

    broken = True

    async def admit(self, *reservation: Any, **more: Any) -> Any:
        if self.broken:
            self.broken = False
            raise RuntimeError("database is locked")
        return await super().admit(*reservation, **more)


async def test_after_an_internal_error_the_next_request_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = Source("team.toml", '[keys.a]\nkey = "${A}"\n').config({"A": "key-a"})
    async with (
        serving(Scripted(ANSWER), config=config, ledger=BrokenOnce()) as gateway,
        aiohttp.ClientSession(headers={"x-api-key": "key-a"}) as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        [failed] = await answer(socket, {**CREATE, "stream_id": "a"})
        assert (failed["type"], failed["status"], failed["stream_id"]) == ("error", 500, "a")
        assert failed["error"]["message"] == "the gateway failed to answer"
        assert "database is locked" in caplog.text
        events = await answer(socket, CREATE)
    assert events[-1]["type"] == "response.completed"


@pytest.mark.parametrize("later", ["b", "a"])
async def test_a_revoked_key_gets_no_further_answer(later: str) -> None:
    source = '[keys.a]\nkey = "${A}"\n'
    variables = {"A": "key-a"}
    upstream = Scripted(ANSWER)
    async with (
        serving(upstream, config=Source("t", source).config(variables)) as gateway,
        aiohttp.ClientSession(headers={"x-api-key": "key-a"}) as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        assert (await answer(socket, CREATE))[-1]["type"] == "response.completed"
        changed = source.replace("keys.a", f"keys.{later}")
        gateway.reconfigure(Source("t", changed).config({"A": "another-key"}))
        [refused] = await answer(socket, CREATE)
    assert (refused["type"], refused["status"]) == ("error", 401)
    assert "no longer valid" in refused["error"]["message"]
    assert refused["error"]["code"] == "invalid_api_key"
    assert len(upstream.calls) == 1


async def test_a_binary_frame_gets_an_error_and_the_connection_stays_open() -> None:
    async with (
        serving(Scripted(ANSWER)) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        await socket.send_bytes(b"{}")
        refused = await socket.receive_json()
        assert (refused["type"], refused["status"]) == ("error", 400)
        assert "text frame" in refused["error"]["message"]
        assert (await answer(socket, CREATE))[-1]["type"] == "response.completed"


async def test_events_have_the_stream_id_of_their_request() -> None:
    async with connected(Scripted(ANSWER)) as socket:
        for asked in (CREATE, {**CREATE, "generate": False}, {**CREATE, "input": 7}):
            events = await answer(socket, {**asked, "stream_id": "a"})
            assert {event["stream_id"] for event in events} == {"a"}
        assert "stream_id" not in (await answer(socket, CREATE))[-1]


class Silent:
    """An upstream that is silent until the test releases it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.speak = asyncio.Event()
        self.left = asyncio.Event()

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> AsyncIterator[Any]:
        return self._answer()

    async def crowd(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Send a request, and then one more than the queue holds."""
        await socket.send_json(CREATE)
        await self.asked.wait()
        for _ in range(MOST_WAITING + 1):
            await socket.send_json(CREATE)

    async def _answer(self) -> AsyncIterator[Any]:
        self.asked.set()
        try:
            await self.speak.wait()
        finally:
            self.left.set()
        for event in ANSWER:
            yield event


async def test_a_request_beyond_the_queue_is_refused_and_the_others_are_answered() -> None:
    upstream = Silent()
    async with connected(upstream) as socket:
        await upstream.crowd(socket)
        refused = await socket.receive_json()
        assert (refused["status"], refused["error"]["code"]) == (429, "rate_limit_exceeded")
        upstream.speak.set()
        for _ in range(MOST_WAITING + 1):
            while (await socket.receive_json())["type"] != "response.completed":
                pass


async def test_a_close_is_noticed_while_requests_are_queued() -> None:
    upstream = Silent()
    async with connected(upstream) as socket:
        await upstream.crowd(socket)
        await socket.close()
        await upstream.left.wait()


async def test_steering_input_is_returned() -> None:
    upstream = Silent()
    steer = {"type": "response.steer", "previous_response_id": "r1", "input": "Faster!"}
    async with connected(upstream) as socket:
        await socket.send_json(CREATE)
        await socket.send_json(steer)
        failed = await socket.receive_json()
    assert failed["type"] == "response.steer.failed"
    assert failed["error"]["code"] == "steering_not_supported"
    assert failed["steer"] == {"previous_response_id": "r1", "input": "Faster!"}


async def test_a_client_can_continue_from_an_answer_of_its_connection() -> None:
    upstream = Scripted(ANSWER)
    async with connected(upstream) as socket:
        first = await answer(socket, CREATE)
        id = first[-1]["response"]["id"]
        await answer(socket, {**CREATE, "input": "Go on.", "previous_response_id": id})
    hi, said, on = upstream.context.messages
    assert isinstance(said, AssistantMessage)
    assert (hi, said.content, on) == (
        UserMessage("Hi"),
        [TextBlock("Hello")],
        UserMessage("Go on."),
    )


WRONG = [
    ("an unknown id", {**CREATE, "previous_response_id": "nobody"}, "previous_response_not_found"),
    ("no JSON", "{oops", "invalid_request"),
    ("another type", {"type": "response.cancel"}, "invalid_request"),
    ("an unknown model", {**CREATE, "model": "nobody/any"}, "model_not_found"),
]


@pytest.mark.parametrize(
    ("asked", "code"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
async def test_an_invalid_request_is_an_error_frame_and_the_connection_stays_open(
    asked: Any, code: str
) -> None:
    async with connected(Scripted(ANSWER)) as socket:
        (error,) = await answer(socket, asked)
        assert (error["type"], error["error"]["code"]) == ("error", code)
        assert 400 <= error["status"] < 500
        assert (await answer(socket, CREATE))[-1]["type"] == "response.completed"


async def test_a_failed_answer_is_one_failed_response() -> None:
    failed = swink.Error(error_message="full", error_kind=swink.StreamErrorKind.OVERLOADED)
    async with connected(Scripted([*HELLO, failed])) as socket:
        events = await answer(socket, CREATE)
    assert [event["type"] for event in events].count("response.failed") == 1
    assert events[-1]["response"]["error"]["code"] == "server_is_overloaded"


@pytest.mark.parametrize(("status", "sent"), [(429, 429), (503, 503), (529, 503)])
async def test_a_vendors_refusal_is_an_error_with_its_status_and_the_connection_stays_open(
    status: int, sent: int
) -> None:
    refused = MemoryResponse.of_json({"error": {"message": "no"}}, status)
    own = {"openai": {"base_url": "http://upstream.invalid/v1", "api_key": "k"}}
    async with (
        serving(http=MemoryHTTPClient(refused), providers=own) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        (error,) = await answer(socket, {**CREATE, "model": "openai/gpt-4.1-mini"})
        assert (error["type"], error["status"]) == ("error", sent)
        assert error["error"]["message"].startswith("no")
        assert (await answer(socket, CREATE))[-1]["type"] == "response.completed"


async def test_a_failure_after_the_beginning_has_no_status() -> None:
    refused = swink.Error(error_message="no", error_kind=swink.StreamErrorKind.OVERLOADED)
    async with connected(Scripted([*HELLO, refused])) as socket:
        events = await answer(socket, CREATE)
    assert [event["type"] for event in events if "status" in event] == []
    assert events[-1]["type"] == "response.failed"


async def test_an_exception_in_an_encoder_is_one_failed_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    feed = ResponsesEncoder.feed

    def faulty(self: ResponsesEncoder, batch: Any, known: Any) -> bytes:
        if any(isinstance(event, swink.TextDelta) for event in batch):
            raise KeyError("text")
        return feed(self, batch, known)

    async with connected(Scripted(ANSWER)) as socket:
        with monkeypatch.context() as patch:
            patch.setattr(ResponsesEncoder, "feed", faulty)
            events = await answer(socket, CREATE)
        assert events[-1]["type"] == "response.failed"
        assert "failed to translate" in events[-1]["response"]["error"]["message"]
        assert (await answer(socket, CREATE))[-1]["type"] == "response.completed"


async def test_a_get_without_an_upgrade_is_refused() -> None:
    async with serving() as gateway:
        assert (await ask(gateway, "/v1/responses", method="GET")).status == 426


async def test_over_http_a_client_can_continue_only_from_stored_answers() -> None:
    upstream = Scripted(ANSWER)
    asked = {"model": "echo/echo", "input": "Hi"}
    async with serving(upstream) as gateway:
        unstored = (await ask(gateway, "/v1/responses", {**asked, "store": False})).json["id"]
        on = {**asked, "input": "Go on.", "previous_response_id": unstored}
        refused = await ask(gateway, "/v1/responses", on)
        streamed = await ask(gateway, "/v1/responses", {**asked, "stream": True})
        on["previous_response_id"] = streamed.frames[0]["response"]["id"]
        gone_on = await ask(gateway, "/v1/responses", on)
    assert refused.status == 400
    assert unstored in refused.json["error"]["message"]
    assert gone_on.status == 200
    assert len(upstream.context.messages) == 3


def test_stored_conversations_are_bounded_in_number_and_bytes() -> None:
    kept = ConversationStore(most=2, most_bytes=100)
    for id in ("a", "b", "c"):
        kept.keep(id, Kept([UserMessage(id)], 10, 10))
    assert [kept.find(id) is not None for id in ("a", "b", "c")] == [False, True, True]
    kept.keep("d", Kept([UserMessage("d")], 95, 95))
    assert [kept.find(id) is not None for id in ("b", "c", "d")] == [False, False, True]


@pytest.mark.parametrize("over", ["HTTP", "a WebSocket"])
async def test_a_stored_conversation_has_the_size_limit_of_a_request(
    over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_gateway.serving.server.MOST_BODY_BYTES", 1200)
    upstream = Scripted(ANSWER)
    body = {**CREATE, "input": "x" * 300}
    said: list[dict[str, Any]] = []
    async with (
        serving(upstream) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses") as socket,
    ):
        asked = body
        for _ in range(3):
            if over == "HTTP":
                said.append((await ask(gateway, "/v1/responses", asked)).json)
            else:
                last = (await answer(socket, asked))[-1]
                said.append(last.get("response", last))
            asked = {**body, "previous_response_id": said[-1].get("id")}
    assert len(upstream.calls) == 2
    assert said[-1]["error"]["code"] == "context_length_exceeded"


async def test_the_sdk_connects() -> None:
    openai = pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    pytest.importorskip("websockets", reason="OpenAI's SDK needs it for this")
    async with (
        serving(Scripted(ANSWER)) as gateway,
        openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="k") as client,
        client.responses.connect() as connection,
    ):
        await connection.response.create(model="echo/echo", input="Hi")
        text = ""
        async for event in connection:
            if event.type == "response.output_text.delta":
                text += event.delta
            if event.type == "response.completed":
                break
    assert text == "Hello"

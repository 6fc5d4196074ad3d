"""While an upstream is silent, its client gets a keep-alive every ten seconds of a test's clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest
from sdks import CLIENTS, Ask
from serving import Scripted, serving
from test_seed_scenarios import CHAT, PARALLEL, asked, timeless

import swink_core as swink
from swink_gateway.policy.config import Config
from swink_gateway.policy.config.schema import Amount
from swink_gateway.serving.keepalive import SILENT_SECONDS
from swink_gateway.serving.limits import Limits
from swink_testing.clock import ManualClock

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

MODEL = "echo/echo"


class Thinking(Scripted):
    """An upstream that is silent between the batches that `say` sends."""

    def __init__(self) -> None:
        super().__init__()
        self.said: asyncio.Queue[list[Any]] = asyncio.Queue()
        self.asked = asyncio.Event()

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        self.asked.set()
        return _Thinking(self.said)

    async def say(self, *events: Any) -> None:
        await self.said.put(list(events))


class _Thinking:
    def __init__(self, said: asyncio.Queue[list[Any]]) -> None:
        self._said = said

    async def batches(self) -> AsyncIterator[Any]:
        while True:
            yield (batch := await self._said.get())
            if isinstance(batch[-1], swink.Done | swink.Error):
                return

    def __aiter__(self) -> Any:
        raise NotImplementedError


BEGUN = (swink.Start(), swink.TextStart(0), swink.TextDelta(0, "Hello"))
ENDED = (swink.TextDelta(0, " you"), swink.TextEnd(0), swink.Done(swink.StopReason.STOP))

HI = {"model": MODEL, "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
GEMINI = f"/v1beta/models/{MODEL}:streamGenerateContent"

SIGNS: dict[str, tuple[str, dict[str, Any], bytes]] = {
    "chat": ("/v1/chat/completions", HI, b": alive\n\n"),
    "messages": (
        "/v1/messages", {**HI, "max_tokens": 9}, b'event: ping\ndata: {"type":"ping"}\n\n',
    ),
    "responses": (
        "/v1/responses", {"model": MODEL, "stream": True, "input": "Hi"},
        b"event: response.in_progress\n",
    ),
    "gemini": (f"{GEMINI}?alt=sse", CONTENTS, b'data: {"modelVersion":"echo"}\n\n'),
    "gemini, an array": (GEMINI, CONTENTS, b"\r\n"),
    "ollama": ("/api/chat", HI, b'"content":""},"done":false}\n'),
    "ollama generate": ("/api/generate", {"model": MODEL, "prompt": "Hi"}, b'"response":"",'),
    "native": ("/v1/stream", HI, b": alive\n\n"),
}  # fmt: skip
"""The path, the body and the keep-alive of each protocol."""


@pytest.mark.parametrize("name", SIGNS)
async def test_a_client_gets_a_keep_alive_every_ten_seconds_before_and_between_output(
    name: str,
) -> None:
    path, body, sign = SIGNS[name]
    upstream, clock = Thinking(), ManualClock()
    async with (
        serving(upstream, limits=Limits(clock=clock)) as gateway,
        aiohttp.ClientSession() as session,
    ):
        asking = asyncio.ensure_future(session.post(gateway.url + path, json=body))
        await upstream.asked.wait()
        await clock.advance(SILENT_SECONDS)
        async with await asking as response:
            assert response.status == 200
            came = await read_until(response, sign)
            await clock.advance(SILENT_SECONDS)
            await read_until(response, sign)
            await upstream.say(*BEGUN)
            came += await read_until(response, b"Hello")
            await clock.advance(SILENT_SECONDS - 1)
            await upstream.say(swink.TextDelta(0, " there"))
            before = await read_until(response, b" there")
            assert sign not in before.replace(b"\r\n{", b"")  # the silence was shorter
            await clock.advance(SILENT_SECONDS)
            await read_until(response, sign)
            await upstream.say(*ENDED)
            rest = await response.read()
            await clock.advance(10 * SILENT_SECONDS)
            assert b" you" in rest


WAIT = 3.0
FULL = swink.Error(error_message="full", error_kind=swink.StreamErrorKind.OVERLOADED)


@pytest.mark.parametrize("name", [name for name in SIGNS if name != "native"])
@pytest.mark.parametrize("passed", [False, True])
async def test_the_status_waits_for_the_provider_but_no_longer_than_head_wait(
    name: str, passed: bool
) -> None:
    path, body, sign = SIGNS[name]
    upstream, clock = Thinking(), ManualClock()
    config = Config(head_wait=Amount(WAIT))
    async with (
        serving(upstream, limits=Limits(clock=clock), config=config) as gateway,
        aiohttp.ClientSession() as session,
    ):
        asking = asyncio.ensure_future(session.post(gateway.url + path, json=body))
        await upstream.asked.wait()
        await clock.advance(WAIT - 0.5)
        if passed:
            await clock.advance(0.5)
            response = await asking
            await read_until(response, sign)
        await upstream.say(swink.Start(), FULL)
        async with await asking as response:
            rest = await response.read()
    assert response.status == (200 if passed else 503)
    assert b"full" in rest


@pytest.mark.parametrize("is_late", [False, True])
async def test_a_late_fallback_has_no_header_with_the_model_of_an_earlier_attempt(
    is_late: bool,
) -> None:
    upstream, clock = Thinking(), ManualClock()
    config = Config(head_wait=Amount(WAIT))
    routes = {"best": ["echo/think", "echo/echo"]}
    async with (
        serving(upstream, limits=Limits(clock=clock), config=config, routes=routes) as gateway,
        aiohttp.ClientSession() as session,
    ):
        url, body = f"{gateway.url}/v1/chat/completions", {**HI, "model": "best"}
        asking = asyncio.ensure_future(session.post(url, json=body))
        await upstream.asked.wait()
        if is_late:
            await clock.advance(WAIT)
            await read_until(await asking, b": alive")
        await upstream.say(swink.Start(), FULL)
        await upstream.say(*BEGUN, *ENDED)
        async with await asking as response:
            assert b"Hello" in await response.read()
    assert response.headers.get("x-swink-model") == (None if is_late else "echo/echo")


async def test_after_a_long_head_wait_keep_alives_have_the_usual_interval() -> None:
    path, body, sign = SIGNS["chat"]
    upstream, clock = Thinking(), ManualClock()
    config = Config(head_wait=Amount(6 * SILENT_SECONDS))
    async with (
        serving(upstream, limits=Limits(clock=clock), config=config) as gateway,
        aiohttp.ClientSession() as session,
    ):
        asking = asyncio.ensure_future(session.post(gateway.url + path, json=body))
        await upstream.asked.wait()
        await clock.advance(2 * SILENT_SECONDS)
        await upstream.say(*BEGUN)
        async with await asking as response:
            before = await read_until(response, b"Hello")
            await clock.advance(SILENT_SECONDS)
            await read_until(response, sign)
            await upstream.say(*ENDED)
            await response.read()
    assert sign not in before


async def read_until(response: aiohttp.ClientResponse, what: bytes) -> bytes:
    """Read until a text has arrived."""
    came = b""
    while what not in came:
        piece = await response.content.readany()
        assert piece, came
        came += piece
    return came


@pytest.mark.parametrize("protocol", [name for name in CLIENTS if name != "native"])
async def test_every_sdk_reads_an_answer_with_keep_alives(protocol: str) -> None:
    upstream, clock = Thinking(), ManualClock()
    async with (
        serving(upstream, limits=Limits(clock=clock)) as gateway,
        CLIENTS[protocol](gateway.url) as client,
    ):
        reading = asyncio.ensure_future(client.stream(MODEL, Ask("Hi")))
        await upstream.asked.wait()
        for batch in (BEGUN, (swink.TextDelta(0, " there"),), ENDED):
            await clock.advance(2 * SILENT_SECONDS)
            await upstream.say(*batch)
        found = await reading
    assert (found.error, found.text) == (None, "Hello there you")


async def test_a_failure_after_a_keep_alive_still_falls_back() -> None:
    upstream, clock = Thinking(), ManualClock()
    async with (
        serving(
            upstream,
            limits=Limits(clock=clock),
            routes={"two": ["echo/echo", "echo/think"]},
        ) as gateway,
        aiohttp.ClientSession() as session,
    ):
        body = {"model": "two", "stream": True, "input": "Hi"}
        asking = asyncio.ensure_future(session.post(f"{gateway.url}/v1/responses", json=body))
        await upstream.asked.wait()
        await clock.advance(SILENT_SECONDS)
        async with await asking as response:
            down = swink.Error(error_message="full", error_kind=swink.StreamErrorKind.OVERLOADED)
            await upstream.say(swink.Start(), down)
            await upstream.say(*BEGUN)
            await upstream.say(*ENDED)
            lines = (await response.read()).split(b"\n")
    frames = [msgspec.json.decode(x[6:]) for x in lines if x.startswith(b"data: ")]
    assert [f["type"] for f in frames].count("response.created") == 1
    assert [f["sequence_number"] for f in frames] == list(range(len(frames)))
    assert frames[-1]["type"] == "response.completed"
    assert {f["response"]["id"] for f in frames if "response" in f} == {frames[0]["response"]["id"]}
    assert frames[-1]["response"]["output"][0]["content"][0]["text"] == "Hello you"


async def test_an_upstreams_comments_are_not_forwarded() -> None:
    said = b": are you there\n\n"
    frames = [frame + b"\n\n" for frame in PARALLEL.body.split(b"\n\n") if frame]
    chunks = [piece for frame in frames for piece in (said, frame)]
    for path, fields in (("/v1/chat/completions", CHAT), ("/v1/messages", CHAT)):
        answer = await asked(chunks, PARALLEL, path, **fields)
        assert b"are you there" not in answer.body
        assert timeless(answer.frames) == timeless(
            (await asked(frames, PARALLEL, path, **fields)).frames
        )

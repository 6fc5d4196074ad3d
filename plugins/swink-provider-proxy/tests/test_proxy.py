"""The native protocol against a small reference server, which is any swink client behind HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_core.providers import OPTIONS as TABLE
from swink_core.providers import TUNING
from swink_core.vocabulary.grammar import Automaton

Answer = Callable[[dict[str, Any]], list[swink.AssistantMessageEvent]]


class Gateway:
    """Answers `POST /v1/stream` with given frames, or with what echo says."""

    def __init__(self, frames: list[str] | None = None, status: int = 200) -> None:
        self.frames = frames
        self.status = status
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []

    async def __aenter__(self) -> str:
        app = web.Application()
        app.router.add_post("/v1/stream", self._stream)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.headers.append(dict(request.headers))
        if self.status != 200:
            headers = {"Retry-After": "7"} if self.status == 429 else {}
            return web.json_response(
                {"error": {"message": "no"}}, status=self.status, headers=headers
            )
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        if self.frames is not None:
            for frame in self.frames:
                await response.write(f"data: {frame}\n\n".encode())
            return response
        context = swink.load(
            swink.Context,
            {
                "messages": body["messages"],
                "system_prompt": body["system"],
                "tools": body["tools"],
            },
        )
        options = body["options"]
        if "cache" in options:
            options["cache"] = swink.CacheStrategy(**options["cache"])
        self.options = swink.StreamOptions(**options)
        async with (
            swink.Client() as client,
            client.stream(body["model"], context, **options) as events,
        ):
            async for event in events:
                await response.write(f"data: {json.dumps(swink.dump(event))}\n\n".encode())
        return response


def frames(*events: swink.AssistantMessageEvent) -> list[str]:
    return [json.dumps(swink.dump(event)) for event in events]


HELLO = [swink.Start(), swink.TextStart(0), swink.TextDelta(0, "Hello"), swink.TextEnd(0)]
DONE = swink.Done(swink.StopReason.STOP, swink.Usage(input=1, output=2, total=3, reported=True))


async def read(
    base_url: str, model: str = "proxy/echo/echo", **options: Any
) -> tuple[list[swink.AssistantMessageEvent], swink.AssistantMessage]:
    options = {"retry": swink.RetryPolicy.none(), **options}
    async with swink.Client() as client:
        async with client.stream(model, "one two", base_url=base_url, **options) as stream:
            events = [event async for event in stream]
        return events, stream.message


@pytest.mark.parametrize("model", ["echo/echo", "echo/think", "echo/tool"])
async def test_a_model_answers_through_the_gateway_as_it_does_directly(model: str) -> None:
    async with swink.Client() as client, client.stream(model, "one two") as stream:
        direct = [event async for event in stream]
    async with Gateway() as base_url:
        relayed, _ = await read(base_url, f"proxy/{model}")
    assert [type(event) for event in relayed] == [type(event) for event in direct]
    assert relayed[1:-1] == direct[1:-1]
    assert relayed[-1].stop_reason == direct[-1].stop_reason  # type: ignore[attr-defined]  # Done
    assert relayed[-1].usage == direct[-1].usage  # type: ignore[attr-defined]  # Done


async def test_the_request_carries_model_conversation_tools_and_options_by_name() -> None:
    gateway = Gateway(frames(*HELLO, DONE))
    tool = swink.Tool("f", "does", {"type": "object"})
    async with gateway as base_url:
        await read(
            base_url,
            "proxy/acme/large",
            system_prompt="Be brief.",
            tools=[tool],
            temperature=0.5,
            thinking="low",
            session_id="s1",
            tool_choice="f",
            api_key="canary-key",
        )
    assert gateway.requests[0] == {
        "model": "acme/large",
        "system": "Be brief.",
        "messages": [{"role": "user", "content": "one two"}],
        "tools": [{"name": "f", "description": "does", "parameters": {"type": "object"}}],
        "options": {
            "temperature": 0.5,
            "thinking": "low",
            "session_id": "s1",
            "tool_choice": "f",
        },
    }
    assert gateway.headers[0]["Authorization"] == "Bearer canary-key"


OPTIONS: dict[str, Any] = {
    **{name: TABLE[name].example for name in TUNING if name != "cache"},
    "stop": ["."], "transport": "buffered", "tool_choice": "none",
    "response_format": {"type": "object"}, "malformed": "skip", "rules": False, "retired": True,
    "settings": {"api": "chat", "deep": [1]},
    "extra": {"n": None, "tools": [{"type": "search"}]},
}  # fmt: skip


async def test_every_option_travels_that_is_not_about_the_connection_to_the_gateway() -> None:
    gateway = Gateway(frames(*HELLO, DONE))
    async with gateway as base_url:
        cache = swink.CacheStrategy(ttl=3600)
        await read(base_url, max_output_chars=99, cache=cache, headers={"X-A": "1"}, **OPTIONS)
    sent = gateway.requests[0]["options"]
    assert sent == {**OPTIONS, "cache": {"mode": "auto", "ttl": 3600}}
    stays = {"api_key", "base_url", "headers", "timeouts", "retry", "max_output_chars"}
    stays.add("download_media")
    assert swink.StreamOptions.names() == sent.keys() | stays


async def test_settings_and_extra_reach_the_call_behind_the_gateway() -> None:
    settings, extra = {"script": {"reply": "No."}}, {"a": {"b": [1, None]}, "c": None}
    gateway = Gateway()
    async with gateway as base_url:
        _, message = await read(base_url, settings=settings, extra=extra)
    assert message.text == "No."
    assert gateway.options.extra == extra


async def test_a_setting_that_nobody_has_is_the_gateways_to_refuse() -> None:
    async with Gateway() as base_url:
        events, _ = await read(base_url, settings={"mood": "good"})
    assert isinstance(events[-1], swink.Error)


TABLE = [
    ("eof_before_the_terminal_is_a_network_error", frames(*HELLO), Kind.NETWORK),
    ("a_frame_that_is_not_json", [*frames(*HELLO), "{oops"], Kind.PROTOCOL),
    ("a_frame_that_is_no_event", [*frames(*HELLO), '{"type": "text_start"}'], Kind.PROTOCOL),
    ("a_frame_without_a_type", [*frames(*HELLO), '{"song": 1}'], Kind.PROTOCOL),
    ("a_delta_of_a_block_that_is_not_open", frames(swink.Start(), HELLO[2]), Kind.PROTOCOL),
    ("a_second_start", frames(swink.Start(), swink.Start()), Kind.PROTOCOL),
    ("nothing_at_all", [], Kind.NETWORK),
    (
        "the_upstreams_error_keeps_its_kind",
        frames(*HELLO, swink.Error.overloaded("full", 3.0)),
        Kind.OVERLOADED,
    ),
]


@pytest.mark.parametrize(
    ("sent", "kind"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
async def test_what_is_wrong_ends_in_one_error_with_blocks_closed(
    sent: list[str], kind: Kind
) -> None:
    gateway = Gateway(sent)
    async with gateway as base_url:
        events, message = await read(base_url)
    grammar = Automaton()
    assert [grammar.step(event) for event in events] == [None] * len(events)
    assert isinstance(events[-1], swink.Error)
    assert events[-1].error_kind is kind
    assert message.text == ("Hello" if len(sent) > 3 else "")
    assert len(gateway.requests) == 1


STATUSES = [
    (401, Kind.AUTH), (403, Kind.AUTH), (429, Kind.THROTTLED), (504, Kind.NETWORK),
    (500, Kind.NETWORK), (503, Kind.OVERLOADED), (404, Kind.MODEL_NOT_FOUND),
]  # fmt: skip


@pytest.mark.parametrize(("status", "kind"), STATUSES)
async def test_the_gateways_statuses(status: int, kind: Kind) -> None:
    async with Gateway(status=status) as base_url:
        events, _ = await read(base_url)
    assert [type(event) for event in events] == [swink.Start, swink.Error]
    error = events[-1]
    assert isinstance(error, swink.Error)
    assert (error.error_kind, error.error_message) == (kind, "no")
    assert error.retry_after == (7.0 if status == 429 else None)


async def test_an_upstreams_retry_is_passed_on_and_voids_what_came_before() -> None:
    again = swink.Retry(2, 4, 0.0, "dropped", "acme/large")
    sent = frames(*HELLO[:2], swink.TextEnd(0), again, *HELLO, DONE)
    async with Gateway(sent) as base_url:
        events, message = await read(base_url)
    assert [type(event) for event in events].count(swink.Retry) == 1
    assert [type(event) for event in events].count(swink.Start) == 2
    assert message.text == "Hello"
    assert message.usage == DONE.usage


COSTS = [
    ("parts without a total", swink.Cost(input=0.25, output=0.5), 0.75),
    ("parts and a total", swink.Cost(input=0.25, output=0.5, fees=0.25, total=1.0), 1.0),
    ("an estimate", swink.Cost(input=0.25, output=0.5, total=0.75, estimated=True), 0.75),
]


@pytest.mark.parametrize(("cost", "dollars"), [row[1:] for row in COSTS], ids=[c[0] for c in COSTS])
@pytest.mark.parametrize("is_error", [False, True], ids=["an answer", "an error"])
async def test_the_cost_that_the_gateway_reports_arrives_whole(
    cost: swink.Cost, dollars: float, is_error: bool
) -> None:
    done = swink.Done(swink.StopReason.STOP, DONE.usage, cost)
    failed = swink.Error(error_message="no", usage=DONE.usage, cost=cost, error_kind=Kind.UNKNOWN)
    sent = frames(*HELLO, failed if is_error else done)
    async with Gateway(sent) as base_url, swink.Client() as client:
        options: Any = {"base_url": base_url, "retry": swink.RetryPolicy.none()}
        async with client.stream("proxy/acme/large", "Hi", **options) as stream:
            events = [event async for event in stream]
        charge = client.charge
    last: Any = events[-1]
    assert last.cost == cost
    assert charge.cost == dollars
    assert charge.estimated or not cost.estimated


# the cost that a gateway reports, and what is left of it
WRONG_COSTS: list[tuple[swink.Cost, swink.Cost | None]] = [
    (swink.Cost(total=-5.0), None),
    (swink.Cost(input=-5.0), None),
    (swink.Cost(input=0.25, output=0.5, total=-1.0), swink.Cost(input=0.25, output=0.5)),
    (swink.Cost(input=-0.25, total=0.5), swink.Cost(total=0.5)),
]


@pytest.mark.parametrize(("cost", "left"), WRONG_COSTS)
@pytest.mark.parametrize("is_error", [False, True], ids=["an answer", "an error"])
async def test_invalid_amounts_of_a_gateway_are_left_out_with_a_notice(
    cost: swink.Cost, left: swink.Cost | None, is_error: bool
) -> None:
    done = swink.Done(swink.StopReason.STOP, DONE.usage, cost)
    failed = swink.Error(error_message="no", usage=DONE.usage, cost=cost, error_kind=Kind.UNKNOWN)
    async with (
        Gateway(frames(*HELLO, failed if is_error else done)) as base_url,
        swink.Client() as client,
    ):
        options: Any = {"base_url": base_url, "retry": swink.RetryPolicy.none()}
        async with client.stream("proxy/acme/large", "Hi", **options) as stream:
            events = [event async for event in stream]
    last: Any = events[-1]
    [notice] = [event for event in events if isinstance(event, swink.Notice)]
    assert "is not a valid amount" in notice.detail
    assert last.cost == left
    assert client.cost == left
    assert (client.charge.cost or 0) >= 0


async def test_what_comes_beside_the_text_arrives_and_goes_back() -> None:
    logprobs = {"logprobs": {"content": [{"token": "Hi", "logprob": -0.5}]}}
    sound = swink.Extension(1, "openai", "audio", {"id": "audio_1", "data": "AAAA"})
    facts = {"service_tier": "flex"}
    said = [swink.Start(), swink.TextStart(0), swink.TextDelta(0, "Hi"), swink.TextEnd(0, logprobs)]
    done = swink.Done(swink.StopReason.STOP, metadata=facts)
    gateway = Gateway(frames(*said, sound, done))
    async with gateway as base_url, swink.Client() as client:
        first = await client.complete("proxy/acme/large", "Hello", base_url=base_url)
        turns = [swink.UserMessage("Hello"), first, swink.UserMessage("Go on.")]
        await client.complete("proxy/acme/large", turns, base_url=base_url)
    assert first.metadata == facts
    assert first.content == [
        swink.TextBlock("Hi", logprobs),
        swink.ExtensionBlock("openai", "audio", sound.data),
    ]
    back = swink.load(swink.AssistantMessage, gateway.requests[1]["messages"][1])
    assert back.content == first.content


async def test_opaque_state_goes_back_unchanged() -> None:
    answer = swink.AssistantMessage(
        [swink.ThinkingBlock("hm", "c2ln", metadata={"k": [1]}), swink.TextBlock("Hi")],
        provider="proxy",
    )
    gateway = Gateway(frames(*HELLO, DONE))
    async with gateway as base_url, swink.Client() as client:
        turns = [swink.UserMessage("a"), answer, swink.UserMessage("b")]
        await client.complete("proxy/acme/large", turns, base_url=base_url)
    sent = swink.load(swink.AssistantMessage, gateway.requests[0]["messages"][1])
    assert sent.content == answer.content
    assert sent.provider is None


async def test_an_event_that_only_a_newer_gateway_knows_is_told_and_changes_nothing() -> None:
    async with Gateway([*frames(*HELLO), '{"type": "song"}', *frames(DONE)]) as base_url:
        events, message = await read(base_url)
    assert [e.code for e in events if isinstance(e, swink.Notice)] == ["unknown_event"]
    assert (message.text, message.stop_reason) == ("Hello", swink.StopReason.STOP)

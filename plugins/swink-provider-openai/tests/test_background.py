"""Responses in the background: polled, followed, resumed after a cut, cancelled."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import Client, Done, Error, Notice, RetryPolicy, TextDelta, ToolResultMessage
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.clock import ManualClock

ANSWER = {
    "id": "resp_1",
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hi there.", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7},
}

EVENTS: list[dict[str, Any]] = [
    {"type": "response.created", "response": {"id": "resp_1", "status": "queued"}},
    {"type": "response.queued", "response": {"id": "resp_1", "status": "queued"}},
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi "},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "the"},
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "re."},
    {"type": "response.completed", "response": ANSWER},
]


def _frame(number: int) -> bytes:
    event = {**EVENTS[number], "sequence_number": number}
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


class Service(LoopbackServer):
    """Keeps one response. `cuts` are the bytes after which each stream is cut, in order.

    `unfinished` counts the polls that still find it queued; `statuses` come before all answers.
    """

    def __init__(self, cuts: list[int], unfinished: int = 0) -> None:
        super().__init__()
        self.cuts = cuts
        self.unfinished = unfinished
        self.statuses: list[int] = []
        self.seen: list[str] = []
        self.bodies: list[Any] = []

    async def respond(self, exchange: Exchange) -> None:
        after = exchange.query.get("starting_after")
        ends = [exchange.method, exchange.path.removeprefix("/responses")]
        self.seen.append(" ".join([*filter(None, ends), *([] if after is None else [after])]))
        if exchange.body:
            self.bodies.append(exchange.json)
        if self.statuses and exchange.method == "GET":
            await exchange.start(self.statuses.pop(0), {"Content-Type": "application/json"})
            await exchange.write(b'{"error":{"message":"later"}}')
            await exchange.end()
        elif exchange.path.endswith("/cancel"):
            await self._whole(exchange, "cancelled")
        elif exchange.query.get("stream") or (exchange.body and exchange.json["stream"]):
            await self._stream(exchange, 0 if after is None else int(after) + 1)
        elif self.unfinished:
            self.unfinished -= 1
            await self._whole(exchange, "in_progress" if self.unfinished else "queued")
        else:
            await self._whole(exchange, "completed")

    async def _whole(self, exchange: Exchange, status: str) -> None:
        await exchange.start(200, {"Content-Type": "application/json"})
        await exchange.write(json.dumps({**ANSWER, "status": status}).encode())
        await exchange.end()

    async def _stream(self, exchange: Exchange, first: int) -> None:
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        data = b"".join(map(_frame, range(first, len(EVENTS))))
        if self.cuts:
            await exchange.write(data[: self.cuts.pop(0)])
            exchange.close()
            return
        await exchange.write(data)
        await exchange.end()


def _client(server: LoopbackServer, clock: ManualClock | None = None) -> Client:
    own = {"openai": {"base_url": server.url, "api_key": "k", "api": "responses"}}
    return Client(providers=own, clock=clock or ManualClock(jump=True), retry=RetryPolicy.none())


async def _events(client: Client, **options: Any) -> list[Any]:
    async with client.stream("openai/m", "Hi", **options) as stream:
        return [event async for event in stream]


async def test_a_whole_response_is_polled_until_it_is_finished() -> None:
    clock = ManualClock(jump=True)
    async with Service([], unfinished=6) as server, _client(server, clock) as client:
        message = await client.complete(
            "openai/m", "Hi", transport="buffered", settings={"background": True}
        )
    assert message.text == "Hi there."
    assert message.usage is not None
    assert message.usage.output == 4
    assert server.seen == ["POST", *["GET /resp_1"] * 6]
    assert [server.bodies[0][name] for name in ("background", "store")] == [True, True]
    assert clock.sleeps == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


async def test_extra_may_ask_for_the_same() -> None:
    async with Service([], unfinished=1) as server, _client(server) as client:
        message = await client.complete(
            "openai/m", "Hi", transport="buffered", extra={"background": True}
        )
    assert message.text == "Hi there."
    assert server.seen == ["POST", "GET /resp_1"]


async def test_a_poll_that_fails_for_a_moment_is_repeated() -> None:
    async with Service([], unfinished=2) as server, _client(server) as client:
        server.statuses = [503, 429]
        message = await client.complete(
            "openai/m", "Hi", transport="buffered", settings={"background": True}
        )
    assert message.text == "Hi there."
    assert server.seen == ["POST", *["GET /resp_1"] * 4]


LENGTHS = [len(_frame(number)) for number in range(len(EVENTS))]
ENDS = [sum(LENGTHS[: number + 1]) for number in range(len(EVENTS))]


@pytest.mark.parametrize("cut", range(ENDS[0], ENDS[-1], 7))
async def test_a_stream_that_is_cut_is_resumed_after_its_last_whole_event(cut: int) -> None:
    async with Service([cut]) as server, _client(server) as client:
        events = await _events(client, settings={"background": True})
    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == "Hi there."
    assert isinstance(events[-1], Done)
    whole = sum(end <= cut for end in ENDS) - 1
    assert server.seen == ["POST", f"GET /resp_1 {whole}"]
    assert [e.code for e in events if isinstance(e, Notice) and e.code == "resumed"] == ["resumed"]


async def test_many_cuts_are_survived_as_long_as_each_stream_brings_something() -> None:
    cuts = LENGTHS[:-1]
    async with Service([*cuts]) as server, _client(server) as client:
        message = await client.complete("openai/m", "Hi", settings={"background": True})
    assert message.text == "Hi there."
    assert server.seen == ["POST", *(f"GET /resp_1 {n}" for n in range(len(cuts)))]


async def test_cuts_that_bring_nothing_end_the_call_and_cancel_the_response() -> None:
    async with Service([LENGTHS[0], *[0] * 9]) as server, _client(server) as client:
        last = (await _events(client, settings={"background": True}))[-1]
    assert isinstance(last, Error)
    assert last.error_kind == "network"
    assert server.seen == ["POST", *["GET /resp_1 0"] * 5, "POST /resp_1/cancel"]


async def test_a_stream_cut_before_its_first_event_is_not_resumed() -> None:
    async with Service([3]) as server, _client(server) as client:
        last = (await _events(client, settings={"background": True}))[-1]
    assert isinstance(last, Error)
    assert server.seen == ["POST"]


class Unnumbered(Service):
    """Sends the first events, without numbers, and then closes the stream."""

    async def _stream(self, exchange: Exchange, first: int) -> None:
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        for event in EVENTS[first:5]:
            await exchange.write(b"data: %s\n\n" % json.dumps(event).encode())
        if self.cuts:
            exchange.close()
        else:
            await exchange.end()


@pytest.mark.parametrize("cuts", [[], [0]], ids=["ended", "cut"])
@pytest.mark.parametrize(
    ("settings", "asked"),
    [
        ({"background": True}, ["POST", "POST /resp_1/cancel"]),
        ({"resume": "resp_1"}, ["GET /resp_1"]),
    ],
    ids=["begun", "resumed"],
)
async def test_a_stream_without_numbers_is_not_begun_again_after_a_cut(
    settings: dict[str, Any], asked: list[str], cuts: list[int]
) -> None:
    async with Unnumbered(cuts) as server, _client(server) as client:
        events = await _events(client, settings=settings)
    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == "Hi the"
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind == "network"
    assert server.seen == asked


class Slow(Service):
    """Begins a response and says no more."""

    async def _stream(self, exchange: Exchange, first: int) -> None:
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        await exchange.write(_frame(0) + _frame(2) + _frame(3))
        await exchange.disconnected()


@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        ({"background": True}, ["POST /resp_1/cancel"]),
        ({"background": True, "detached": True}, []),
    ],
    ids=["cancelled", "detached"],
)
async def test_a_call_that_is_left_cancels_the_response_unless_it_is_detached(
    settings: dict[str, Any], ends: list[str]
) -> None:
    async with (
        Slow([]) as server,
        Client(
            providers={"openai": {"base_url": server.url, "api_key": "k", "api": "responses"}}
        ) as client,
        client.stream("openai/m", "Hi", settings=settings) as stream,
    ):
        async for event in stream:
            if event.type == "text_delta":
                break
    assert server.seen == ["POST", *ends]


async def test_a_resumed_response_is_followed_and_goes_on_when_it_is_left() -> None:
    cut = ENDS[4] - ENDS[2]
    async with Service([cut]) as server, _client(server) as client:
        message = await client.complete(
            "openai/m", "Hi", settings={"resume": "resp_1", "starting_after": 2}
        )
    assert message.text == "Hi there."
    assert server.seen == ["GET /resp_1 2", "GET /resp_1 4"]


async def test_a_resumed_response_that_is_not_streamed_is_polled() -> None:
    async with Service([], unfinished=2) as server, _client(server) as client:
        message = await client.complete(
            "openai/m", "Hi", transport="buffered", settings={"resume": "resp_1"}
        )
    assert message.text == "Hi there."
    assert server.seen == ["GET /resp_1"] * 3


@pytest.mark.parametrize("name", ["background", "previous_response_id"])
async def test_what_chat_completions_lacks_is_refused_there(name: str) -> None:
    value: Any = True if name == "background" else "resp_1"
    async with Service([]) as server, _client(server) as client:
        last = (await _events(client, settings={"api": "chat", name: value}))[-1]
    assert isinstance(last, Error)
    assert (last.error_kind, last.code) == ("unsupported", name)
    assert server.seen == []


async def test_a_setting_names_the_previous_response() -> None:
    async with Service([]) as server, _client(server) as client:
        first = await client.complete("openai/m", "Hi")
        said: list[Any] = [first, ToolResultMessage("call_1", "f", "42")]
        await client.complete("openai/m", said, settings={"previous_response_id": "resp_1"})
    body = server.bodies[1]
    assert body["previous_response_id"] == "resp_1"
    [item] = body["input"]
    assert (item["type"], item["call_id"]) == ("function_call_output", "call_1")

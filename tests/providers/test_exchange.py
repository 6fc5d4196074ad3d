"""Providers of several requests: their order, their credentials, and their ends."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from attrs import define, evolve
from fakes import (
    HELLO,
    MODEL,
    Observer,
    Pipe,
    Toy,
    client_of,
    collect,
    cut_after,
    dropped,
    frame,
    types,
)

import swink_core as swink
from swink_core import Failure, Notice, PluginError, ProviderFailure, StreamOptions, Timeouts
from swink_core import StreamErrorKind as Kind
from swink_core.providers import Exchange, Grant, HTTPRequest, Token, TokenHTTP
from swink_core.providers.foreign import open_source
from swink_testing.calls import call_of
from swink_testing.clock import ManualClock

HOME = "https://toy.invalid"
CREATE = f"{HOME}/v1/jobs"
STREAM = "https://files.invalid/stream/7"
CANCEL = f"{HOME}/v1/jobs/7/cancel"
COUNTS = f"{HOME}/v1/jobs/7"
USAGE = b'{"usage": {"input": 5, "output": 6}}'
JOB = b'{"id": "7"}'
OPEN = (frame(text="Hel"), frame(text="lo"))
WORDS = (*OPEN, frame(stop="stop"))


class Job(msgspec.Struct):
    id: str


class Jobs(Toy):
    """Creates a job, streams it from another host, and asks for the counts after that."""

    async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        request = x.request()
        made = await x.read(HTTPRequest(CREATE, request.body, request.headers), Job)
        x.on_abandon(HTTPRequest(f"{CREATE}/{made.id}/cancel"))
        async for data in x.stream(HTTPRequest(STREAM, method="GET")):
            yield data
            if x.stopped:
                break
        yield x.frame(await x.read(HTTPRequest(COUNTS, method="GET")))


Reply = Pipe | Failure | Callable[[], Any]


class Service:
    """An `HTTPClient` with an answer for each address; `hold` keeps one back until it is set."""

    def __init__(self, **answers: Reply) -> None:
        self.requests: list[HTTPRequest] = []
        self.answers: dict[str, Any] = {
            CREATE: lambda: Pipe(JOB, status=201, end=True),
            STREAM: lambda: Pipe(*WORDS),
            CANCEL: lambda: Pipe(b"{}", end=True),
            COUNTS: lambda: Pipe(USAGE, end=True),
        }
        names = {"create": CREATE, "stream": STREAM, "cancel": CANCEL, "counts": COUNTS}
        self.answers |= {names[name]: answer for name, answer in answers.items()}
        self.held: set[str] = set()
        self.hold = asyncio.Event()

    @property
    def asked(self) -> list[str]:
        return [request.url for request in self.requests]

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
        self.requests.append(request)
        if request.url in self.held:
            await self.hold.wait()
        answer = self.answers[request.url]
        made = answer() if callable(answer) else answer
        if isinstance(made, Failure):
            raise ProviderFailure(made)
        return made

    def close_idle(self) -> None:
        """Keep nothing idle."""

    async def aclose(self) -> None:
        """Hold nothing open."""


def client(service: Any, *plugins: Any, provider: Any = Jobs, **options: Any) -> swink.Client:
    own: dict[str, Any] = {"retry": swink.RetryPolicy.none(), "api_key": "the-key-secret"}
    options = {**own, **options}
    return client_of(*plugins, providers={"toy": provider}, http=service, **options)


async def settle(turns: int = 30) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110  # of a fake that has no event for it
            await asyncio.sleep(0.001)


# -- straight on ---------------------------------------------------------------------------------


async def test_each_request_follows_from_the_answer_before_it() -> None:
    service = Service()
    async with client(service) as toy:
        message = await toy.complete(MODEL, "Hi")
    assert message.text == "Hello"
    assert service.asked == [CREATE, STREAM, COUNTS]
    assert message.usage is not None
    assert (message.usage.input, message.usage.output) == (5, 6)


async def test_key_and_callers_headers_go_to_the_origin_of_the_first_request_alone() -> None:
    service = Service()
    async with (
        client(service) as toy,
        toy.stream(MODEL, "Hi", headers={"X-Mine": "1"}) as stream,
    ):
        stream.call.headers["traceparent"] = "00-1-1-01"
        await collect(stream)
    create, streamed, counts = (request.headers for request in service.requests)
    for headers in (create, counts):
        assert headers["Authorization"] == "Bearer the-key-secret"
        assert (headers["X-Mine"], headers["traceparent"]) == ("1", "00-1-1-01")
    assert streamed == {"Accept": "text/event-stream"}
    assert (create["Accept"], counts["Accept"]) == ("application/json", "application/json")


async def test_headers_of_the_caller_outrank_those_of_a_signature() -> None:
    class Signing(Toy):
        def sign(self, request: HTTPRequest, credential: Any, options: StreamOptions) -> None:
            request.headers["X-Signed"] = ", ".join(request.headers)
            request.headers["x-mine"] = "theirs"

    service = Service()
    service.answers["http://toy.invalid/v1/chat"] = Pipe(*HELLO)
    async with client(service, provider=Signing) as toy:
        await toy.complete(MODEL, "Hi", headers={"X-Mine": "1"})
    (request,) = service.requests
    assert "X-Mine" in request.headers["X-Signed"]
    mine = {name: value for name, value in request.headers.items() if name.lower() == "x-mine"}
    assert mine == {"X-Mine": "1"}


STREAMED = "text/event-stream"

# (whether the answer is read whole, the request's own type, the type that is asked for)
ACCEPTED = [
    (True, None, "application/json"),
    (True, STREAMED, "application/json"),  # the usual request's, for an answer that is no stream
    (True, "application/x-jsonlines", "application/x-jsonlines"),
    (False, None, STREAMED),
    (False, STREAMED, STREAMED),
    (False, "text/event-stream; v=2", "text/event-stream; v=2"),
]


@pytest.mark.parametrize(("is_whole", "own", "accepted"), ACCEPTED)
async def test_a_request_asks_for_its_own_type_or_the_usual_one(
    is_whole: bool, own: str | None, accepted: str
) -> None:
    class Asking(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            headers = {} if own is None else {"Accept": own}
            if is_whole:
                await x.read(HTTPRequest(COUNTS, method="GET", headers=headers))
            async for data in x.stream(HTTPRequest(STREAM, method="GET", headers=headers)):
                yield data

    service = Service(stream=lambda: Pipe(*WORDS, end=True))
    async with client(service, provider=Asking) as toy:
        await toy.complete(MODEL, "Hi")
    assert service.requests[0].headers["Accept"] == accepted


async def test_callers_headers_are_there_to_be_signed_and_are_not_replaced() -> None:
    class Signed(Toy):
        def sign(self, request: HTTPRequest, credential: Any, options: StreamOptions) -> None:
            there = [name for name in ("X-Mine", "X-Hook") if name in request.headers]
            request.headers["X-Signed"] = " ".join(there)
            request.headers["X-Mine"] = "signed"

    service = Service()
    service.answers["http://toy.invalid/v1/chat"] = lambda: Pipe(*HELLO)
    async with client(service, provider=Signed) as toy:
        async with toy.stream(MODEL, "Hi", headers={"X-Mine": "1"}) as stream:
            stream.call.headers["X-Hook"] = "2"
            await collect(stream)
        await toy.complete(MODEL, "Hi", headers={"X-Signed": "own"})
    names = ("X-Signed", "X-Mine", "X-Hook")
    assert [[request.headers.get(name) for name in names] for request in service.requests] == [
        ["X-Mine X-Hook", "1", "2"],
        ["own", "signed", None],
    ]


async def test_a_call_without_an_http_client_names_what_is_missing() -> None:
    call = call_of(Toy("toy"), "large", options=StreamOptions(api_key="k"))
    source: Any = open_source(call)
    with pytest.raises(PluginError, match="the call has no HTTP client"):
        await source.pull()


# (the first address, a later one, whether they have one origin)
ORIGINS = [
    ("https://toy.invalid/a", "https://toy.invalid/b?c=d", True),
    ("https://toy.invalid/a", "wss://toy.invalid/a", True),
    ("http://toy.invalid/a", "ws://toy.invalid/a", True),
    ("wss://toy.invalid/a", "https://toy.invalid/a", True),
    ("https://toy.invalid/a", "http://toy.invalid/a", False),
    ("https://toy.invalid/a", "ws://toy.invalid/a", False),
    ("http://toy.invalid/a", "wss://toy.invalid/a", False),
    ("https://toy.invalid/a", "https://toy.invalid:8443/a", False),
    ("https://toy.invalid/a", "wss://files.invalid/a", False),
]


@pytest.mark.parametrize(("first", "later", "is_one"), ORIGINS)
async def test_a_key_goes_to_a_websocket_of_the_same_origin(
    first: str, later: str, is_one: bool
) -> None:
    dialled: list[tuple[HTTPRequest, float | None]] = []

    async def dial(request: HTTPRequest, connect_timeout: float | None) -> Any:
        dialled.append((request, connect_timeout))
        return Pipe(*HELLO, status=101, headers={})

    class Socket(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            await x.read(HTTPRequest(first))
            request = HTTPRequest(later, method="GET")
            async for data in x.stream(respond=lambda: x.send(request, dial=dial)):
                yield data

    service = Service()
    service.answers[first] = Pipe(JOB, end=True)
    async with client(service, provider=Socket, timeouts=Timeouts(connect=7.0)) as toy:
        assert (await toy.complete(MODEL, "Hi")).text == "Hello"
    [(request, connect_timeout)] = dialled
    assert (request.url, connect_timeout, service.asked) == (later, 7.0, [first])
    assert request.headers.get("Authorization") == ("Bearer the-key-secret" if is_one else None)


async def test_credentials_of_a_providers_own_request_are_hidden() -> None:
    class Signing(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            headers = {"X-Api-Key": "own-header"}
            await x.read(HTTPRequest(f"{STREAM}?key=own-query", headers=headers))
            yield b""

    service = Service()
    said = b'{"error": {"message": "neither own-header nor own-query"}}'
    service.answers[f"{STREAM}?key=own-query"] = Pipe(said, status=400, end=True)
    async with client(service, provider=Signing) as toy, toy.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert events[-1].error_message == "neither [hidden] nor [hidden]"


async def test_an_unstreamed_request_asks_for_json() -> None:
    service = Service()
    service.answers["http://toy.invalid/v1/chat"] = Pipe(
        b'[{"text": "Hello", "stop": "stop"}]',
        headers={"Content-Type": "application/json"},
        end=True,
    )
    async with client(service, provider=Toy, transport="buffered") as toy:
        assert (await toy.complete(MODEL, "Hi")).text == "Hello"
    assert service.requests[0].headers["Accept"] == "application/json"


async def test_observers_and_taps_see_every_request_in_order() -> None:
    shown: list[tuple[str, bytes]] = []
    service, clock = Service(), ManualClock()
    async with client(service, clock=clock) as toy, toy.stream(MODEL, "Hi") as stream:
        stream.call.taps.append(lambda _, leg, data: shown.append((leg.request.url, data)))
        await collect(stream)
    legs = stream.call.attempt.legs
    assert [(leg.kind, leg.request.url, leg.response.status) for leg in legs if leg.response] == [
        ("whole", CREATE, 201),
        ("stream", STREAM, 200),
        ("whole", COUNTS, 200),
    ]
    assert all(leg.response and leg.sent_at <= leg.response.at for leg in legs)
    body = b"".join(data for url, data in shown if url == STREAM)
    assert body == b"".join(WORDS)
    assert [data for url, data in shown if url != STREAM] == [JOB, USAGE]
    assert "secret" not in repr(stream.call) + repr(legs)


async def test_taps_see_the_body_of_an_error() -> None:
    shown: list[tuple[str, bytes]] = []
    async with client(Service(create=Pipe(b"{}", status=400, end=True))) as toy:
        stream = toy.stream(MODEL, "Hi")
        stream.call.taps.append(lambda _, leg, data: shown.append((leg.request.url, data)))
        await collect(stream)
    assert shown == [(CREATE, b"{}")]


class Known(Toy):
    """Knows in advance how to stop the work that its request starts."""

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        x.on_abandon(HTTPRequest(CANCEL))
        return x.stream(HTTPRequest(STREAM))


class Changing(Toy):
    """Changes the bytes in the answer to its request."""

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        body = x.stream(HTTPRequest(STREAM))

        async def changed() -> AsyncIterator[bytes]:
            async for data in body:
                yield data.replace(b"Hel", b"HEL")

        return changed()


class ByHand(Toy):
    """Returns an iterator that is not a generator, and that knows its exchange."""

    def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        return Iterator(x)


class Iterator:
    def __init__(self, x: Exchange) -> None:
        self.x = x
        self.body = x.stream(HTTPRequest(STREAM))

    def __aiter__(self) -> Iterator:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self.body)


@pytest.mark.parametrize(
    ("provider", "text"),
    [(Known, "Hello"), (Changing, "HELlo"), (ByHand, "Hello"), (Jobs, "Hello")],
)
async def test_taps_see_a_body_once_as_it_was_sent(provider: Any, text: str) -> None:
    shown: list[bytes] = []
    service = Service(stream=Pipe(*HELLO, end=True))
    async with client(service, provider=provider) as toy, toy.stream(MODEL, "Hi") as stream:
        stream.call.taps.append(
            lambda _, leg, data: shown.append(data) if leg.request.url == STREAM else None
        )
        await collect(stream)
    assert stream.message.text == text
    assert shown == HELLO


async def test_requests_for_tokens_are_legs_too() -> None:
    @define(frozen=True)
    class Key(Grant):
        async def fetch(self, http: TokenHTTP) -> Token:
            got = await http.read(HTTPRequest(COUNTS, method="GET"), bytes)
            return Token(got.decode())

    class Tokens(Jobs):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
            return Key()

    async with client(Service(), provider=Tokens) as toy, toy.stream(MODEL, "Hi") as stream:
        await collect(stream)
    kinds = [leg.kind for leg in stream.call.attempt.legs]
    assert kinds == ["token", "whole", "stream", "whole"]
    assert stream.call.endpoint == COUNTS


async def test_a_refused_create_is_classified_by_the_providers_tables() -> None:
    body = b'{"error": {"code": "full", "message": "no room for the-key-secret"}}'
    shown: list[bytes] = []
    service = Service(create=Pipe(body, status=400, end=True))
    async with client(service) as toy, toy.stream(MODEL, "Hi") as stream:
        stream.call.taps.append(lambda _, leg, data: shown.append(data))
        events = await collect(stream)
    assert types(events) == ["start", "error"]
    assert shown == [body]
    assert events[-1].error_message == "no room for [hidden]"
    assert service.asked == [CREATE]


@pytest.mark.parametrize(
    ("status", "is_taken"), [(199, False), (200, True), (201, True), (299, True), (300, False)]
)
async def test_a_whole_answer_has_any_status_of_success(status: int, is_taken: bool) -> None:
    service = Service(create=Pipe(JOB, status=status, end=True))
    async with client(service) as toy, toy.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert (events[-1].type == "done") is is_taken
    assert service.asked == ([CREATE, STREAM, COUNTS] if is_taken else [CREATE])


@pytest.mark.parametrize(
    "answer",
    [
        Pipe(JOB, status=201, end=True),
        Pipe(b"<html>", end=True),
        Pipe(b"{}", status=500, end=True),
        cut_after(JOB),
    ],
    ids=["taken", "of another form", "an error", "broken"],
)
async def test_a_whole_answer_is_closed(answer: Pipe) -> None:
    async with client(Service(create=answer)) as toy, toy.stream(MODEL, "Hi") as stream:
        await collect(stream)
        assert answer.closed


@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_that_the_caller_does_not_wait_for_is_closed(status: int) -> None:
    class Asking(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            yield await x.read(HTTPRequest(COUNTS, method="GET"))

    answer = Pipe(status=status)
    service = Service(counts=answer)
    async with client(service, provider=Asking) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        await settle()
        call.cancel()
        await asyncio.wait((call,))
        assert answer.closed


@pytest.mark.parametrize("body", [b"<html>", b'{"id": 7}', b"\xff", b""])
async def test_an_answer_that_is_not_what_was_asked_for_is_a_protocol_error(body: bytes) -> None:
    service = Service(create=Pipe(body, end=True) if body else Pipe(end=True))
    async with client(service) as toy, toy.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert (events[-1].error_kind, service.asked) == (Kind.PROTOCOL, [CREATE])


async def test_a_whole_answer_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_core.providers.exchange.WHOLE_BYTES", 4)
    async with client(Service()) as toy, toy.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert "longer than 4 bytes" in events[-1].error_message


@pytest.mark.parametrize(("more", "is_taken"), [(0, True), (1, False)])
async def test_a_whole_answer_may_have_8_mib(more: int, is_taken: bool) -> None:
    service = Service(create=Pipe(JOB.ljust(8 * 1024 * 1024 + more), status=201, end=True))
    async with client(service) as toy, toy.stream(MODEL, "Hi") as stream:
        events = await collect(stream)
    assert (events[-1].type == "done") is is_taken


async def test_a_poll_waits_by_the_calls_clock_under_the_limit_for_the_first_event() -> None:
    class Polling(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            await x.read(HTTPRequest(CREATE), Job)
            while True:
                await x.sleep(5.0)
                await x.read(HTTPRequest(COUNTS, method="GET"))
            yield b""

    service, clock = Service(), ManualClock()
    limits = Timeouts(first_event=12.0)
    async with client(service, provider=Polling, clock=clock) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi", timeouts=limits))
        for _ in range(3):
            await settle()
            await clock.advance(5.0)
        with pytest.raises(swink.StreamError) as caught:
            await call
    assert caught.value.kind is Kind.TIMEOUT
    assert service.asked == [CREATE, COUNTS, COUNTS]


class Guard:
    """A function that checks request bodies, and notes the thread in which it does so."""

    def __init__(self, is_quick: bool | None) -> None:
        self.threads: list[threading.Thread] = []
        if is_quick is not None:
            self.is_quick = is_quick

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        self.threads.append(threading.current_thread())
        return {**body, "checked": len(self.threads)}


@pytest.mark.parametrize(
    ("quick", "in_thread"),
    [([True], False), ([True, True], False), ([False], True), ([None], True), ([True, None], True)],
)
async def test_a_body_is_checked_once_and_in_a_thread_if_that_may_take_long(
    quick: list[bool | None], in_thread: bool
) -> None:
    guards = [Guard(is_quick) for is_quick in quick]
    counts: list[int] = []

    class Early(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            await x.convert()
            counts.append(len(guards[0].threads))
            await x.convert()
            assert x.payload["checked"] == 1
            async for data in x.stream(x.request()):
                yield data

    service = Service()
    service.answers["http://toy.invalid/v1/chat"] = Pipe(*HELLO)
    async with client(service, provider=Early) as toy, toy.stream(MODEL, "Hi") as stream:
        stream.call.guards = guards
        await collect(stream)
    own = threading.current_thread()
    assert [[thread is not own for thread in guard.threads] for guard in guards] == [
        [in_thread] for _ in guards
    ]
    assert counts == [1]
    assert json.loads(service.requests[0].body)["checked"] == 1


async def test_a_provider_may_replace_the_model_options_and_payload_of_its_requests() -> None:
    class Own(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            assert x.payload["model"] == "large"
            x.model = swink.Model("toy", "small")
            x.options = evolve(x.options, base_url="https://own.invalid")
            x.payload = {"own": "body"}
            async for data in x.stream():
                yield data

        def request(self, model: Any, payload: Any, options: Any) -> HTTPRequest:
            request = super().request(model, payload, options)
            request.headers["X-Model"] = model.id
            return request

    service = Service()
    service.answers["https://own.invalid/chat"] = Pipe(*HELLO)
    async with client(service, provider=Own) as toy:
        assert (await toy.complete(MODEL, "Hi")).text == "Hello"
    [request] = service.requests
    assert (json.loads(request.body), request.headers["X-Model"]) == ({"own": "body"}, "small")


# -- left behind ---------------------------------------------------------------------------------


async def left(toy: swink.Client, way: str, service: Service, clock: ManualClock) -> None:
    """Begin a call and leave it after its first words."""
    service.answers[STREAM] = lambda: Pipe(*OPEN)
    words: Any = asyncio.Event()

    async def read() -> None:
        async with toy.stream(MODEL, "Hi") as stream:
            async for event in stream:
                if event.type == "text_delta":
                    words.set()
                    if way == "leave":
                        return

    reader = asyncio.create_task(read())
    await words.wait()
    await settle()
    if way == "cancel":
        reader.cancel()
    elif way == "limit":
        await clock.advance(400.0)
    await asyncio.wait((reader,))


@pytest.mark.parametrize("way", ["leave", "cancel", "limit"])
async def test_abandoned_work_is_cancelled_on_its_server(way: str) -> None:
    service, clock = Service(), ManualClock()
    async with client(service, clock=clock) as toy:
        await left(toy, way, service, clock)
        await settle()
        assert service.asked == [CREATE, STREAM, CANCEL]
    cancel = service.requests[-1]
    assert (cancel.method, cancel.headers["Authorization"]) == ("POST", "Bearer the-key-secret")


async def test_a_request_that_stops_work_leaves_the_id_of_the_answers_request_alone() -> None:
    service = Service(
        stream=Pipe(*OPEN, headers={"Content-Type": STREAMED, "X-Request-Id": "of-the-answer"}),
        cancel=Pipe(b"{}", headers={"X-Request-Id": "of-the-cancel"}, end=True),
    )
    async with client(service) as toy:
        async with toy.stream(MODEL, "Hi") as stream:
            await anext(stream.text)
        assert service.asked[-1] == CANCEL
        assert stream.call.request_id == "of-the-answer"


@pytest.mark.parametrize("way", ["leave", "cancel", "limit"])
async def test_abandoned_work_of_a_single_request_is_cancelled_on_its_server(way: str) -> None:
    service, clock = Service(), ManualClock()
    async with client(service, provider=Known, clock=clock) as toy:
        await left(toy, way, service, clock)
        await settle()
        assert service.asked == [STREAM, CANCEL]


@pytest.mark.parametrize(
    "stream",
    [
        Failure("connect", kind=Kind.NETWORK, code="disconnected"),
        Pipe(b"{}", status=500, end=True),
        Pipe(*OPEN, end=True),
        Pipe(*OPEN, dropped()),
    ],
    ids=["no connection", "an error", "cut", "dropped"],
)
async def test_failed_work_is_cancelled_on_its_server_before_a_retry(stream: Any) -> None:
    answers = iter([stream, Pipe(*WORDS)])
    service = Service(stream=lambda: next(answers))
    policy = swink.RetryPolicy(base=0.0, restart_after_output=True)
    async with client(service, retry=policy) as toy:
        message = await toy.complete(MODEL, "Hi")
    assert message.text == "Hello"
    asked = [url for url in service.asked if url != COUNTS]
    assert asked == [CREATE, STREAM, CANCEL, CREATE, STREAM]


async def test_a_regular_end_ends_nothing() -> None:
    service = Service()
    async with client(service) as toy:
        await toy.complete(MODEL, "Hi")
    assert CANCEL not in service.asked


async def test_a_cancel_while_the_job_is_created_waits_for_its_id_and_ends_it() -> None:
    service = Service()
    service.held.add(CREATE)
    async with client(service) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        call.cancel()
        await asyncio.wait((call,))
        assert service.asked == [CREATE]
        service.hold.set()
    assert call.cancelled()
    assert service.asked == [CREATE, CANCEL]  # and no stream of it


@pytest.mark.parametrize(
    ("method", "is_whole", "may_create"),
    [
        ("POST", True, True),
        ("PUT", True, True),
        ("GET", True, False),
        ("HEAD", True, False),
        ("OPTIONS", True, False),
        ("POST", False, False),
    ],
)
async def test_a_first_request_goes_on_after_a_cancel_only_if_it_may_create_a_job(
    method: str, is_whole: bool, may_create: bool
) -> None:
    ended: list[str] = []

    class First(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            try:
                if is_whole:
                    await x.read(HTTPRequest(CREATE, method=method))
                async for data in x.stream(HTTPRequest(STREAM, method=method)):
                    yield data
            finally:
                ended.append("yes")

    service = Service()
    service.held |= {CREATE, STREAM}
    async with client(service, provider=First) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        call.cancel()
        await asyncio.wait((call,))
        assert ended == ([] if may_create else ["yes"])
        service.hold.set()
    assert ended == ["yes"]
    assert len(service.asked) == 1


@pytest.mark.parametrize("status", [201, 500])
async def test_a_first_step_does_not_go_on_for_a_later_request(status: int) -> None:
    ended: list[str] = []

    class Polling(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            try:
                with suppress(ProviderFailure):
                    await x.read(HTTPRequest(CREATE))
                yield await x.read(HTTPRequest(COUNTS, method="GET"))
            finally:
                ended.append("yes")

    service = Service(create=Pipe(JOB, status=status, end=True))
    service.held.add(COUNTS)
    async with client(service, provider=Polling) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: COUNTS in service.asked)
        call.cancel()
        await asyncio.wait((call,))
        assert ended == ["yes"]


async def test_a_first_step_that_goes_on_does_not_sleep() -> None:
    class Sleeping(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            await x.read(HTTPRequest(CREATE))
            x.on_abandon(HTTPRequest(CANCEL))
            await x.sleep(7.5)
            yield b""

    service, clock = Service(), ManualClock()
    service.held.add(CREATE)
    async with client(service, provider=Sleeping, clock=clock) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        call.cancel()
        await asyncio.wait((call,))
        service.hold.set()
    assert service.asked == [CREATE, CANCEL]
    assert 7.5 not in clock.sleeps


async def test_a_first_step_that_goes_on_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_core.providers.exchange.ABANDON_SECONDS", 0.3)
    ended: list[str] = []

    class First(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            try:
                await x.read(HTTPRequest(CREATE))
                x.on_abandon(HTTPRequest(CANCEL))
                await asyncio.Event().wait()
                yield b""
            finally:
                await settle()
                ended.append("yes")

    service = Service()
    service.held.add(CREATE)
    async with client(service, provider=First) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        call.cancel()
        await asyncio.wait((call,))
        service.hold.set()
        await until(lambda: CANCEL in service.asked)
        assert ended == ["yes"]


async def test_a_first_step_that_goes_on_is_cleaned_up_before_its_job_is_cancelled() -> None:
    pipe = Pipe(*OPEN)
    ended: list[bool] = []

    class Second(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            try:
                await anext(x.stream(HTTPRequest(STREAM, method="GET")))
                await x.read(HTTPRequest(CREATE))
                x.on_abandon(HTTPRequest(CANCEL))
                yield b""
            finally:
                ended.append(CANCEL in service.asked)

    service = Service(stream=pipe)
    service.held.add(CREATE)
    async with client(service, provider=Second) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: CREATE in service.asked)
        call.cancel()
        await asyncio.wait((call,))
        assert not pipe.closed
        service.hold.set()
    assert ended == [False]
    assert pipe.closed
    assert service.asked == [STREAM, CREATE, CANCEL]


async def test_a_cancel_before_the_job_is_created_sends_nothing_more() -> None:
    @define(frozen=True)
    class Key(Grant):
        async def fetch(self, http: TokenHTTP) -> Token:
            await http.read(HTTPRequest(COUNTS, method="GET"), bytes)
            return Token("x")

    class Tokens(Jobs):
        def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
            return Key()

    service = Service()
    service.held.add(COUNTS)
    async with client(service, provider=Tokens) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        call.cancel()
        await asyncio.wait((call,))
        service.hold.set()
        await settle()
    assert service.asked == [COUNTS]


# (how the first request is sent, whether it may start work on the server)
FIRST = [
    ("read", "POST", True),
    ("read", "PUT", True),
    ("read", "GET", False),
    ("read", "HEAD", False),
    ("read", "OPTIONS", False),
    ("stream", "POST", False),
    ("read then stream", "GET", False),
]


@pytest.mark.parametrize(("way", "method", "goes_on"), FIRST)
async def test_a_first_request_outlives_its_call_only_if_it_may_start_work(
    way: str, method: str, goes_on: bool, caplog: pytest.LogCaptureFixture
) -> None:
    ended: list[str] = []

    class First(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            request = HTTPRequest(COUNTS, method=method)
            try:
                if way == "read":
                    await x.read(request)
                elif way == "read then stream":
                    await x.read(HTTPRequest(CREATE))
                async for data in x.stream(request):
                    yield data
            finally:
                ended.append(method)

    service = Service()
    service.held.add(COUNTS)
    async with client(service, provider=First) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: COUNTS in service.asked)
        call.cancel()
        await asyncio.wait((call,))
        assert ended == ([] if goes_on else [method])
        service.hold.set()
    assert ended == [method]
    assert service.asked[-1] == COUNTS
    assert caplog.text == ""


async def test_what_a_first_request_opened_is_closed_before_the_work_is_cancelled() -> None:
    seen: list[tuple[list[str], bool]] = []
    pipe = Pipe(*OPEN)

    class Late(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            body = x.stream(HTTPRequest(STREAM, method="GET"))
            try:
                await anext(body)
                await x.read(HTTPRequest(CREATE))
                x.on_abandon(HTTPRequest(CANCEL))
                yield b""
            finally:
                seen.append((service.asked, pipe.closed))

    def cancelled() -> Pipe:
        seen.append((service.asked, pipe.closed))
        return Pipe(b"{}", end=True)

    service = Service(stream=pipe, cancel=cancelled)
    service.held.add(CREATE)
    async with client(service, provider=Late) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: CREATE in service.asked)
        call.cancel()
        await asyncio.wait((call,))
        service.hold.set()
    assert seen == [([STREAM, CREATE], False), ([STREAM, CREATE, CANCEL], True)]


async def test_a_first_request_that_is_not_answered_ends_after_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Hanging(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            try:
                await x.read(HTTPRequest(CREATE))
                yield b""
            finally:
                await asyncio.sleep(0)
                x.on_abandon(HTTPRequest(CANCEL))

    monkeypatch.setattr("swink_core.providers.exchange.ABANDON_SECONDS", 0.01)
    service = Service()
    service.held.add(CREATE)
    async with client(service, provider=Hanging) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        call.cancel()
        await asyncio.wait((call,))
        await until(lambda: service.asked == [CREATE, CANCEL])


async def test_a_cancel_while_the_rest_of_a_response_is_read_is_passed_on() -> None:
    class Whole(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            async for data in x.stream():
                yield data

    pipe = Pipe(*HELLO)
    service = Service()
    service.answers["http://toy.invalid/v1/chat"] = pipe
    async with client(service, provider=Whole) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        await settle()
        assert not call.done()
        call.cancel()
        await asyncio.wait((call,))
    assert call.cancelled()
    assert pipe.closed


async def test_a_cancel_while_an_error_is_read_closes_its_response(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pipe = Pipe(b"{", status=500)
    service = Service()
    service.answers["http://toy.invalid/v1/chat"] = pipe
    async with client(service, provider=Toy) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        await settle()
        call.cancel()
        await asyncio.wait((call,))
    assert call.cancelled()
    assert pipe.closed
    assert caplog.text == ""


async def test_a_wait_ends_at_once_when_nobody_waits_for_the_answer() -> None:
    ended: list[str] = []

    class Polling(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            try:
                await x.read(HTTPRequest(CREATE))
                await x.sleep(5.0)
                yield b""
            finally:
                ended.append("yes")

    service = Service()
    service.held.add(CREATE)
    async with client(service, provider=Polling, clock=ManualClock()) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: service.requests)
        call.cancel()
        await asyncio.wait((call,))
        service.hold.set()
        await settle()
        assert ended == ["yes"]


async def test_a_provider_of_one_request_may_end_abandoned_work_too() -> None:
    shown: list[bytes] = []

    class Single(Toy):
        def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            x.on_abandon(HTTPRequest(CANCEL))
            x.on_abandon(HTTPRequest(COUNTS))
            return x.stream(HTTPRequest(STREAM))

    cancel = Pipe(b"{}", end=True, headers={"X-Request-Id": "of the cancel"})
    service = Service(stream=Pipe(*OPEN), cancel=cancel)
    async with client(service, provider=Single) as toy:
        async with toy.stream(MODEL, "Hi") as stream:
            stream.call.taps.append(lambda _, leg, data: shown.append(data))
            await anext(stream.text)
        assert service.asked == [STREAM, CANCEL, COUNTS]
    assert cancel.closed
    assert stream.call.request_id is None
    assert shown == [OPEN[0]]


async def test_each_response_is_closed() -> None:
    opened: list[Pipe] = []

    def answer(*pieces: bytes, status: int = 200) -> Callable[[], Pipe]:
        def begin() -> Pipe:
            opened.append(Pipe(*pieces, status=status, end=True))
            return opened[-1]

        return begin

    service = Service(create=answer(JOB), stream=answer(*WORDS), counts=answer(b"{}", status=500))
    async with client(service) as toy:
        await toy.complete(MODEL, "Hi")
        assert [pipe.closed for pipe in opened] == [True] * 3
        service.answers[CREATE] = answer(b"no job")
        with pytest.raises(swink.StreamError):
            await toy.complete(MODEL, "Hi")
        assert [pipe.closed for pipe in opened] == [True] * 4


async def test_a_cancel_that_hangs_holds_nobody_up_and_is_finished_by_the_close() -> None:
    service, clock = Service(), ManualClock()
    service.held.add(CANCEL)
    toy = client(service, clock=clock)
    await left(toy, "leave", service, clock)
    assert service.asked[-1] == CANCEL
    closing = asyncio.create_task(toy.aclose())
    await settle()
    assert not closing.done()
    service.hold.set()
    await asyncio.wait_for(closing, 5)


async def test_a_close_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swink_core.plugins.client_tasks.CLOSE_SECONDS", 0.01)
    service, clock = Service(), ManualClock()
    service.held.add(CANCEL)
    toy = client(service, clock=clock)
    await left(toy, "leave", service, clock)
    await asyncio.wait_for(toy.aclose(), 5)


async def test_a_cancel_that_fails_is_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    service, clock = Service(), ManualClock()
    said = json.dumps({"message": "the-key-secret may not"}).encode()
    service.answers[CANCEL] = Pipe(said, status=403, end=True)
    async with client(service, clock=clock) as toy:
        await left(toy, "leave", service, clock)
    assert "an abandoned request may still run on the server: [hidden] may not" in caplog.text


async def test_a_cancel_that_is_not_answered_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swink_core.providers.exchange.ABANDON_SECONDS", 0.01)
    service, clock = Service(), ManualClock()
    service.held.add(CANCEL)
    async with client(service, clock=clock) as toy:
        await left(toy, "leave", service, clock)
    assert "an abandoned request may still run on the server: TimeoutError" in caplog.text


async def test_nothing_is_sent_after_a_parser_has_finished() -> None:
    service = Service(stream=Pipe(*HELLO))
    async with client(service) as toy:
        message = await toy.complete(MODEL, "Hi")
        await settle()
    assert (message.text, service.asked) == ("Hello", [CREATE, STREAM])


# -- after the answer ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts",
    [
        Pipe(b"{}", status=500, end=True),
        Failure("connect", kind=Kind.NETWORK, code="disconnected"),
        Pipe(dropped()),
    ],
    ids=["an error", "no connection", "broken"],
)
async def test_a_request_that_fails_after_the_answer_is_a_notice(counts: Any) -> None:
    service, observer = Service(counts=counts), Observer()
    async with client(service, observer) as toy:
        message = await toy.complete(MODEL, "Hi")
    assert (message.text, message.stop_reason) == ("Hello", "stop")
    notices = [event.code for event in observer.events if isinstance(event, Notice)]
    assert notices == ["after_answer"]
    assert service.asked == [CREATE, STREAM, COUNTS]


async def test_the_notice_about_a_request_after_the_answer_contains_no_key() -> None:
    refused = Pipe(
        b'{"error": {"message": "the key canary-0123456789 is invalid"}}', status=401, end=True
    )
    observer = Observer()
    async with client(Service(counts=refused), observer) as toy:
        await toy.complete(MODEL, "Hi", api_key="canary-0123456789")
    [notice] = [event for event in observer.events if isinstance(event, Notice)]
    assert notice.detail == "a request after the answer failed: the key [hidden] is invalid"


class Counted(Jobs):
    """Streams a job that exists already, and asks for the counts after that."""

    async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        async for data in x.stream(HTTPRequest(STREAM, method="GET")):
            yield data
        yield x.frame(await x.read(HTTPRequest(COUNTS, method="GET")))


class Uncounted(Jobs):
    """Creates a job and streams it, and asks for nothing after that."""

    async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        await x.read(HTTPRequest(CREATE))
        async for data in x.stream(HTTPRequest(STREAM, method="GET")):
            yield data


@pytest.mark.parametrize(("provider", "codes"), [(Counted, ["after_answer"]), (Uncounted, [])])
async def test_only_a_request_after_that_of_the_answer_is_one_after_the_answer(
    provider: Any, codes: list[str]
) -> None:
    ending = {Counted: b"", Uncounted: dropped()}[provider]
    service = Service(stream=Pipe(*WORDS, ending), counts=Pipe(b"{}", status=500, end=True))
    observer = Observer()
    async with client(service, observer, provider=provider) as toy:
        message = await toy.complete(MODEL, "Hi")
    assert message.text == "Hello"
    assert [e.code for e in observer.events if isinstance(e, Notice)] == codes


async def test_a_request_after_the_answer_may_not_take_for_ever() -> None:
    service, clock, observer = Service(), ManualClock(), Observer()
    service.held.add(COUNTS)
    async with client(service, observer, clock=clock) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: COUNTS in service.asked)
        await settle()
        await clock.advance(6.0)
        message = await call
    assert message.text == "Hello"
    assert "after_answer" in [getattr(event, "code", "") for event in observer.events]
    assert CANCEL not in service.asked


async def test_an_answer_that_is_left_open_is_complete_though_it_took_two_requests() -> None:
    class Trying(Toy):
        def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            async def respond() -> Any:
                with suppress(ProviderFailure):
                    return await x.send(HTTPRequest(CREATE))
                return await x.send(HTTPRequest(STREAM))

            return x.stream(respond=respond)

    service, clock, observer = Service(), ManualClock(), Observer()
    service.answers[CREATE] = Pipe(b"{}", status=404, end=True)
    async with client(service, observer, provider=Trying, clock=clock) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await until(lambda: STREAM in service.asked)
        await settle()
        await clock.advance(6.0)
        message = await call
    assert message.text == "Hello"
    assert [event for event in observer.events if isinstance(event, Notice)] == []


# -- bodies and generators -----------------------------------------------------------------------


@pytest.mark.parametrize("way", ["leave", "cancel", "limit"])
async def test_a_body_that_is_read_in_a_generator_is_closed(way: str) -> None:
    service, clock = Service(), ManualClock()
    opened: list[Pipe] = []
    async with client(service, clock=clock) as toy:

        def begin() -> Pipe:
            opened.append(Pipe(*OPEN))
            return opened[-1]

        service_left = left(toy, way, service, clock)
        task = asyncio.create_task(service_left)
        await asyncio.sleep(0)
        service.answers[STREAM] = begin
        await task
    assert [pipe.closed for pipe in opened] == [True]


class Told(Pipe):
    """A response that knows whether its body has been read completely."""

    def __init__(self, *pieces: bytes, at_end: bool) -> None:
        super().__init__(*pieces, end=True)
        self.at_end = at_end


@pytest.mark.parametrize(
    ("pipe", "is_read"),
    [
        (lambda *pieces: Pipe(*pieces, end=True), True),
        (lambda *pieces: Told(*pieces, at_end=False), True),
        (lambda *pieces: Told(*pieces, at_end=True), False),
    ],
    ids=["unknown", "not at its end", "at its end"],
)
async def test_the_rest_of_a_body_is_read_unless_the_body_is_at_its_end(
    pipe: Callable[..., Pipe], is_read: bool
) -> None:
    shown: list[bytes] = []
    service = Service()
    service.answers["http://toy.invalid/v1/chat"] = pipe(*HELLO, b": rest\n\n")
    async with client(service, provider=Toy) as toy, toy.stream(MODEL, "Hi") as stream:
        stream.call.taps.append(lambda call, leg, data: shown.append(data))
        await collect(stream)
    assert shown == [*HELLO, *[b": rest\n\n"] * is_read]


async def test_cleanup_of_a_generator_runs_when_its_first_step_is_cancelled() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    class Waiting(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            try:
                begun.set()
                await asyncio.Event().wait()
                yield b""
            finally:
                await settle()
                ended.append("yes")

    async with client(Service(), provider=Waiting) as toy:
        call = asyncio.create_task(toy.complete(MODEL, "Hi"))
        await begun.wait()
        call.cancel()
        await asyncio.wait((call,))
        assert ended == ["yes"]
    assert call.cancelled()


async def test_cleanup_of_a_generator_has_run_when_the_stream_is_closed() -> None:
    ended: list[bool] = []
    pipe = Pipe(*OPEN)

    class Careful(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            try:
                async for data in x.stream(HTTPRequest(STREAM, method="GET")):
                    yield data
            finally:
                await asyncio.sleep(0)
                ended.append(pipe.closed)

    async with client(Service(stream=pipe), provider=Careful) as toy:
        async with toy.stream(MODEL, "Hi") as stream:
            await anext(stream.text)
        assert ended == [False], "the cleanup runs before the core closes the response"
    assert pipe.closed


async def test_a_generator_without_data_is_an_answer_without_data() -> None:
    class Empty(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            return
            yield b""

    service = Service()
    service.answers["http://toy.invalid/v1/chat"] = lambda: Pipe(end=True)
    ends = []
    for provider in (Empty, Toy):
        async with client(service, provider=provider) as toy, toy.stream(MODEL, "Hi") as stream:
            end = (await collect(stream))[-1]
            ends.append((end.error_kind, end.code, end.error_message))
    assert ends[0] == ends[1]


async def test_a_fault_of_the_generator_names_the_plugin(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            await x.read(HTTPRequest(CREATE), Job)
            raise LookupError("no such place")
            yield b""

    caplog.set_level(logging.ERROR)
    async with client(Service(), provider=Faulty) as toy:
        with pytest.raises(swink.StreamError, match=r'plugin "toy" raised LookupError') as caught:
            await toy.complete(MODEL, "Hi")
    assert caught.value.kind is Kind.INTERNAL


async def test_a_provider_may_go_on_after_a_refusal() -> None:
    class Either(Toy):
        async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
            with pytest.raises(ProviderFailure) as caught:
                await x.read(HTTPRequest(COUNTS, method="GET"))
            assert caught.value.failure.status == 404
            async for data in x.stream(HTTPRequest(STREAM, method="GET")):
                yield data

    service = Service(counts=Pipe(b"{}", status=404, end=True), stream=Pipe(*HELLO))
    async with client(service, provider=Either) as toy:
        assert (await toy.complete(MODEL, "Hi")).text == "Hello"


async def exchanges_left(provider: Any) -> int:
    """Count the exchanges that only the garbage collector would free after a call."""
    service = Service(stream=Pipe(*WORDS, end=True))
    service.answers["http://toy.invalid/v1/chat"] = Pipe(*HELLO, end=True)
    async with client(service, provider=provider) as toy:
        gc.collect()
        gc.disable()
        before = sum(isinstance(each, Exchange) for each in gc.get_objects())
        try:
            await toy.complete(MODEL, "Hi")
            return sum(isinstance(each, Exchange) for each in gc.get_objects()) - before
        finally:
            gc.enable()


@pytest.mark.parametrize("provider", [Toy, Jobs, ByHand])
async def test_an_exchange_is_freed_without_the_garbage_collector(provider: Any) -> None:
    assert await exchanges_left(provider) == 0

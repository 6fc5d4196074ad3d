"""A made-up provider, its wire format, and servers and connections that obey a test.

The toy wire format is server-sent events whose payloads are JSON objects; each key is one call of
the writer, in the order of `_TELL`:

    data: {"text": "Hel"}
    data: {"call": {"key": 0, "id": "a", "name": "f", "arguments": "{}"}}
    data: {"usage": {"input": 1, "output": 2}, "stop": "stop", "finish": true}
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Self

import msgspec

import swink_core as swink
import swink_core.client as clients
from swink_core import ProviderInfo
from swink_core.providers import (
    AiohttpClient,
    EventWriter,
    HTTPProvider,
    HTTPRequest,
    MalformedFrame,
    by_tables,
    normalise,
)
from swink_core.vocabulary.grammar import Automaton
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.calls import client_with

MODEL = "toy/large"
NO_RETRY = swink.RetryPolicy.none()
AT_ONCE = swink.RetryPolicy(base=0.0)
SSE = {"Content-Type": "text/event-stream"}


# -- the toy provider ----------------------------------------------------------------------------


def frame(**said: Any) -> bytes:
    """One frame of the toy wire format."""
    return b"data: " + json.dumps(said).encode() + b"\n\n"


HELLO = [
    frame(id="r1", model="large-2"),
    frame(text="Hel"),
    frame(text="lo"),
    frame(usage={"input": 3, "output": 2}),
    frame(stop="stop", finish=True),
]
"""A whole answer, a frame to a piece."""


class ToyParser:
    def feed(self, data: bytes, out: EventWriter) -> None:
        said = msgspec.json.decode(data)
        if not isinstance(said, dict):
            raise MalformedFrame("a frame is an object")
        for name, value in said.items():
            if (tell := _TELL.get(name)) is not None:
                tell(out, value)

    def buffered(self, data: bytes, out: EventWriter) -> None:
        for said in msgspec.json.decode(data):
            self.feed(msgspec.json.encode(said), out)


_TELL: dict[str, Callable[[EventWriter, Any], None]] = {
    "text": lambda out, text: out.text(_string(text)),
    "thinking": lambda out, text: out.thinking(text),
    "signature": lambda out, text: out.thinking("", signature=text),
    "call": lambda out, call: out.tool_call(**call),
    "extension": lambda out, data: out.extension("toy", data),
    "choice": lambda out, data: out.extension(swink.ExtensionBlock.CHOICE, data),
    "usage": lambda out, usage: out.usage(**usage),
    "id": lambda out, id: out.response(id=id),
    "model": lambda out, model: out.response(model=model),
    "facts": lambda out, facts: out.response(metadata=facts),
    "stop": lambda out, reason: out.stop(swink.StopReason(reason)),
    "finish": lambda out, _: out.finish(),
    "restart": lambda out, why: out.restart(why),
    "error": lambda out, error: out.fail(_failure(**error)),
}


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise MalformedFrame("text is a string")
    return value


def _failure(kind: str | None = None, **facts: Any) -> swink.Failure:
    known = None if kind is None else swink.StreamErrorKind(kind)
    return swink.Failure("streaming", kind=known, **facts)


class Toy(HTTPProvider):
    """A provider whose frames are calls of the writer."""

    features = frozenset({"tools", "tool_choice", "stop", "images"})
    buffered = True
    path = "/chat"

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.info = ProviderInfo(
            name,
            name.title(),
            base_url="http://toy.invalid/v1",
            api_key_env=("TOY_API_KEY",),
            portal="https://toy.invalid/keys",
        )

    def convert(
        self, model: swink.Model, context: swink.Context, options: swink.StreamOptions
    ) -> Any:
        messages = [swink.dump(message) for message in normalise(context, self.name)]
        return {**options.extra, "model": model.id, "messages": messages, "stream": True}

    def parser(self, model: swink.Model) -> ToyParser:
        return ToyParser()

    def classify(self, failure: swink.Failure) -> swink.Classification | None:
        return by_tables(failure, {"busy": swink.StreamErrorKind.OVERLOADED})


class Yielding:
    """A provider whose `stream` hook is the given function of no arguments."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make

    def __call__(self, name: str) -> Yielding:
        return self

    @swink.hookimpl
    def stream(self) -> Any:
        return self.make()


# -- hosts and clients ---------------------------------------------------------------------------


def entry_point(
    name: str,
    load: Any,
    group: str = "swink.providers",
    distribution: str | None = None,
) -> Any:
    """An installed plugin; `load` is what its module holds, or the error of importing it."""

    def loaded() -> Any:
        if isinstance(load, BaseException):
            raise load
        return load

    return SimpleNamespace(
        name=name,
        group=group,
        value=f"no_such_package_{name}:Plugin",
        load=loaded,
        dist=SimpleNamespace(name=distribution or f"swink-{name}", version="1.0"),
    )


def host_of(*plugins: Any, **providers: Any) -> swink.Host:
    """A host with these providers and nothing that is really installed."""
    points = [entry_point(name, provider) for name, provider in (providers or {"toy": Toy}).items()]
    return swink.Host(plugins, entry_points=points, environ={})


def client_of(*plugins: Any, providers: Mapping[str, Any] | None = None, **given: Any) -> Any:
    """A client of the toy provider, or of others, with a key; failed calls are not made again."""
    given.setdefault("retry", NO_RETRY)
    if providers is None:
        given.setdefault("api_key", "test-key")
    return client_with(host=host_of(*plugins, **(providers or {})), **given)


class Observer:
    """Keeps every event of every call."""

    def __init__(self) -> None:
        self.events: list[swink.AssistantMessageEvent] = []

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        self.events.append(event)

    @property
    def terminals(self) -> list[swink.AssistantMessageEvent]:
        return [e for e in self.events if isinstance(e, swink.Done | swink.Error)]


def broken_rules(events: Iterable[swink.AssistantMessageEvent]) -> list[str]:
    """The grammar rules that these events break, such as a missing terminal event."""
    automaton = Automaton()
    broken = [rule for event in events if (rule := automaton.step(event)) is not None]
    if automaton.phase != "ended":
        broken.append("no terminal event")
    return broken


async def collect(stream: AsyncIterator[Any] | swink.EventStream) -> list[Any]:
    return [event async for event in stream]


def types(events: Iterable[swink.AssistantMessageEvent]) -> list[str]:
    return [event.type for event in events]


async def settled() -> None:
    """Lets everything happen that needs neither time nor a socket."""
    for _ in range(50):
        await asyncio.sleep(0)


# -- a network made of memory --------------------------------------------------------------------


class Pipe:
    """A response whose body a test sends piece by piece, as `HTTPResponse`."""

    def __init__(
        self,
        *pieces: bytes,
        status: int = 200,
        headers: Mapping[str, str] = SSE,
        end: bool = False,
    ) -> None:
        from multidict import CIMultiDict

        self.status = status
        self.headers: Mapping[str, str] = CIMultiDict(headers)
        self.closed = False
        self._queue: asyncio.Queue[bytes | Exception] = asyncio.Queue()
        for piece in pieces:
            self.send(piece)
        if end:
            self.end()

    def send(self, piece: bytes | Exception) -> None:
        self._queue.put_nowait(piece)

    def end(self) -> None:
        self.send(b"")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._queue.get()
        if isinstance(piece, Exception):
            raise piece
        if not piece:
            raise StopAsyncIteration
        return piece

    def close(self) -> None:
        self.closed = True


class PipeClient:
    """An `HTTPClient` that answers with pipes, one to a request; the last one ever after.

    A failure among them is raised, and a callable is awaited for its answer.
    """

    def __init__(self, *answers: Any) -> None:
        self.requests: list[HTTPRequest] = []
        self.connect_timeouts: list[float | None] = []
        self.closed = False
        self.idle_closed = 0
        self._answers = deque(answers)

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> Any:
        self.requests.append(request)
        self.connect_timeouts.append(connect_timeout)
        answer = self._answers[0] if len(self._answers) == 1 else self._answers.popleft()
        if callable(answer):
            answer = await answer()
        if isinstance(answer, swink.Failure):
            raise swink.ProviderFailure(answer)
        return answer

    def close_idle(self) -> None:
        self.idle_closed += 1

    async def aclose(self) -> None:
        self.closed = True


def good() -> Pipe:
    """A whole answer."""
    return Pipe(*HELLO, end=True)


def dropped() -> swink.ProviderFailure:
    """The exception of an `HTTPResponse` when the connection breaks."""
    return swink.ProviderFailure(
        swink.Failure("streaming", kind=swink.StreamErrorKind.NETWORK, code="connection")
    )


def cut_after(*pieces: bytes) -> Pipe:
    """A response that breaks off after these pieces."""
    pipe = Pipe(*pieces)
    pipe.send(dropped())
    return pipe


# -- a server ------------------------------------------------------------------------------------


@asynccontextmanager
async def http_client() -> AsyncIterator[AiohttpClient]:
    client = clients.AiohttpClient()  # the client of the fixture `transport`, if a test uses it
    try:
        yield client
    finally:
        await client.aclose()


async def read_all(response: Any) -> bytes:
    return b"".join([data async for data in response])


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


class Server(LoopbackServer):
    """A loopback server whose answer is a function of the exchange."""

    def __init__(self, answer: Callable[[Exchange], Awaitable[None]]) -> None:
        super().__init__()
        self._answer = answer

    async def respond(self, exchange: Exchange) -> None:
        await self._answer(exchange)


def sends(*pieces: bytes, end: bool = True) -> Callable[[Exchange], Awaitable[None]]:
    """An answer of these pieces, a write each; without an end the connection stays open."""

    async def answer(exchange: Exchange) -> None:
        await exchange.start(200, SSE)
        for piece in pieces:
            await exchange.write(piece)
            await asyncio.sleep(0)
        if end:
            await exchange.end()
        else:
            await asyncio.Event().wait()

    return answer


def says(status: int, body: bytes, headers: Mapping[str, str]) -> Callable[[Exchange], Any]:
    """An answer that is not a stream."""

    async def answer(exchange: Exchange) -> None:
        await exchange.start(status, headers)
        await exchange.write(body)
        await exchange.end()

    return answer


@asynccontextmanager
async def serving(
    answer: Callable[[Exchange], Awaitable[None]], *plugins: Any, **given: Any
) -> AsyncIterator[tuple[Any, Server]]:
    """A client of a toy provider that is served over loopback."""
    async with Server(answer) as server:
        given.setdefault("base_url", server.url)
        async with client_of(*plugins, **given) as client:
            yield client, server

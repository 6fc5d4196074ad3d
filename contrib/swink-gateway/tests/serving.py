"""Gateways on loopback with scripted upstreams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any

import aiohttp
import msgspec
from attrs import define

import swink_core as swink
from swink_core.providers import HTTPClient
from swink_gateway.serving.server import Gateway

ONCE = swink.RetryPolicy.none()


class Scripted:
    """A plugin that answers every call, of any model, with given batches of events."""

    def __init__(self, *batches: Sequence[swink.AssistantMessageEvent]) -> None:
        self.answers: list[Sequence[Sequence[swink.AssistantMessageEvent]]] = [batches]
        self.calls: list[swink.Call] = []

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        self.calls.append(call)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return _Batches(answer)

    @property
    def context(self) -> swink.Context:
        return self.calls[-1].context

    @property
    def options(self) -> swink.StreamOptions:
        return self.calls[-1].options


class Watched(Scripted):
    """Keeps the model and the fields of each attempt in `seen`."""

    def __init__(self, *batches: Any) -> None:
        super().__init__(*batches)
        self.seen: list[tuple[str, dict[str, Any]]] = []

    @swink.hookimpl(tryfirst=True)
    def stream(self, call: swink.Call) -> Any:
        self.seen.append((str(call.model), dict(call.attempt.options.extra)))
        return super().stream(call)


class _Batches:
    def __init__(self, batches: Iterable[Sequence[swink.AssistantMessageEvent]]) -> None:
        self._batches = batches

    async def batches(self) -> AsyncIterator[Sequence[swink.AssistantMessageEvent]]:
        for batch in self._batches:
            yield list(batch)

    def __aiter__(self) -> Any:
        raise NotImplementedError


@asynccontextmanager
async def serving(
    *plugins: Any, http: HTTPClient | None = None, providers: Any = None, **options: Any
) -> AsyncIterator[Gateway]:
    """Run a gateway; `http` replaces the network, and `plugins` provide the answers."""
    async with (
        swink.Client(host=swink.Host(plugins), http=http, providers=providers) as client,
        Gateway(client, **{"retry": ONCE, **options}) as gateway,
    ):
        yield gateway


@define
class Answer:
    """A response."""

    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def frames(self) -> list[Any]:
        """The data of server-sent events, as JSON where it is."""
        said = [
            line.removeprefix(b"data: ")
            for line in self.body.split(b"\n")
            if line.startswith(b"data: ")
        ]
        return [one if one == b"[DONE]" else msgspec.json.decode(one) for one in said]


async def ask(
    gateway: Gateway, path: str, body: Any = None, *, method: str | None = None, **more: Any
) -> Answer:
    """Send one request and read all of the answer."""
    method = method or ("GET" if body is None else "POST")
    data = (
        None
        if body is None
        else BytesIO(body if isinstance(body, bytes) else msgspec.json.encode(body))
    )
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, gateway.url + path, data=data, **more) as response,
    ):
        return Answer(response.status, response.headers, await response.read())


async def until(holds: Callable[[], bool]) -> None:
    """Let the event loop run until something holds."""
    while True:
        if holds():
            return
        await asyncio.sleep(0)

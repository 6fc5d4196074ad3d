"""Connections of calls and of additional requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeAlias

from swink_core import Context, Model, ProviderFailure, StreamOptions, SwinkError, UserMessage
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.played import PlayedClient, shown
from swink_testing.conformance.subject import CANARY_KEY, NOWHERE, Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_connections_are_closed"]

_LONG = 512
"""Pieces of an answer that is too long for anybody, some 30 MB."""

_PIECE = b'{"a":[' + b"1," * 30_000

_Question: TypeAlias = Callable[[PlayedClient], Awaitable[Any]]

_HOW = ("with nothing", "with JSON of nothing", "without an end", "with too much", "and broken off")


def check_connections_are_closed(subject: Subject) -> None:
    """Every response is closed, however it is answered, and after a cancellation."""
    if not subject.speaks_http:
        raise DoesNotApply("it does not speak HTTP")

    async def ask() -> None:
        for what, question in _questions(subject).items():
            for how in _HOW:
                answers = _Answers(how)
                http = subject.http(answers)
                http.is_open = True
                asked = asyncio.ensure_future(question(http))
                silence = asyncio.ensure_future(answers.silent.wait())
                await asyncio.wait((asked, silence), return_when=asyncio.FIRST_COMPLETED)
                for task in (asked, silence):
                    task.cancel()
                    with suppress(SwinkError, ProviderFailure, OSError, asyncio.CancelledError):
                        await task
                for played in http.played:
                    where = f"{what}, answered {how}: the response of {shown(played.request)}"
                    require(played.response.closed, f"{where} is left open")

    with quiet():
        asyncio.run(ask())


def _questions(subject: Subject) -> dict[str, _Question]:
    """Return calls, also of an unlisted model, and the list of a server's models."""

    def call(model: Model, **options: Any) -> _Question:
        async def ask(http: PlayedClient) -> None:
            context = Context([UserMessage("Hello")])
            given = subject.call_options(**options)
            async with subject.client(http).stream(model, context, **given) as stream:
                async for _ in stream:
                    pass

        return ask

    unlisted = subject.catalog.resolve(Model(subject.name, "swink-unlisted"))
    found = {"a call": call(subject.model), "a call of an unlisted model": call(unlisted)}
    found["a call with thinking"] = call(unlisted, thinking="high")
    if (list_models := getattr(subject.provider, "list_models", None)) is not None:
        options = StreamOptions(api_key=CANARY_KEY, base_url=NOWHERE)
        found["the list of models"] = lambda http: list_models(options, http)
    return found


class _Answers:
    """Answers in one way, each time anew; `silent` is set while nothing comes."""

    def __init__(self, how: str) -> None:
        self.silent = asyncio.Event()
        self._how = how

    def __call__(self) -> MemoryResponse:
        """Make an answer."""
        headers = {"Content-Type": "application/json"}
        match self._how:
            case "with nothing":
                return MemoryResponse(headers=headers)
            case "with JSON of nothing":
                return MemoryResponse([b"{}"], headers=headers)
            case "with too much":
                return MemoryResponse([_PIECE] * _LONG, headers=headers)
            case "and broken off":
                return MemoryResponse([b'{"a'], headers=headers, error=OSError("it is away"))
        return _Silent(self.silent)


class _Silent(MemoryResponse):
    """Begins an answer and says nothing more."""

    def __init__(self, silent: asyncio.Event) -> None:
        super().__init__(headers={"Content-Type": "application/json"})
        self._silent = silent

    async def __anext__(self) -> bytes:
        self._silent.set()
        await asyncio.Event().wait()
        raise StopAsyncIteration

"""Checks that connections are closed after every answer, and when a stream is abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias
from unittest.mock import patch

from swink_core import (
    Error,
    Event,
    EventStream,
    Model,
    ProviderFailure,
    Start,
    StopReason,
    StreamOptions,
    SwinkError,
)
from swink_core.vocabulary.grammar import CONTENT
from swink_recorder.recording import Recording
from swink_testing.chunking import frame_ends
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.played import PlayedClient, shown
from swink_testing.conformance.subject import CANARY_KEY, NOWHERE, Subject
from swink_testing.driver import MemoryResponse
from swink_testing.quiet import quiet

__all__ = ["check_connections_are_closed"]

_LONG = 512
"""The number of chunks in a response of about 30 MB, which is too large to be read whole."""

_PIECE = b'{"a":[' + b"1," * 30_000

_Question: TypeAlias = Callable[[PlayedClient], Awaitable[Any]]

_HOW = ("with nothing", "with JSON of nothing", "without an end", "with too much", "and broken off")

_JSON = {"Content-Type": "application/json"}


def check_connections_are_closed(subject: Subject) -> None:
    """An abandoned stream ends with Error(aborted), and every response is closed at once.

    This includes the responses of additional requests, such as those for a list of models, and
    large and interrupted answers.
    """
    if subject.speaks_http:
        recording = subject.answers()[0]
        ends = frame_ends(recording.body, type(subject.provider).decoder)
        part = recording.body[: ends[len(ends) // 3]] if len(ends) > 3 else b""
        for begun in dict.fromkeys((part, b"")):
            asyncio.run(_abandon_over_http(subject, recording, begun))
        with quiet():
            asyncio.run(_require_closed(subject))
    elif subject.can_be_called:
        asyncio.run(_abandon_in_process(subject))
    elif subject.is_played:
        asyncio.run(_abandon_played(subject, subject.answers()[0]))
    else:
        raise DoesNotApply("it answers from somewhere else: use --offline or --live")


class _Stalling(MemoryResponse):
    """A response that yields its chunks, sets `stalled`, and then yields nothing more."""

    def __init__(
        self, pieces: Iterable[bytes] = (), status: int = 200, headers: Mapping[str, str] = _JSON
    ) -> None:
        super().__init__(pieces, status, headers)
        self.stalled = asyncio.Event()

    async def __anext__(self) -> bytes:
        with suppress(StopAsyncIteration):
            return await super().__anext__()
        self.stalled.set()
        await asyncio.Event().wait()
        raise StopAsyncIteration


async def _until_stalled(reader: asyncio.Task[Any], stalled: asyncio.Event) -> None:
    """Wait until an answer stalls, or its reader ends."""
    waiting = asyncio.create_task(stalled.wait())
    await asyncio.wait((reader, waiting), return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _abandon_over_http(subject: Subject, recording: Recording, part: bytes) -> None:
    """Close a stream after it has received `part` of an answer, and check how the stream ends.

    If the recording contains a request that cancels the job on the server, this request must be
    sent. If the stream is closed before the answer begins, the request is only required if an
    earlier response may have contained the job's id.
    """
    answer = _Stalling([part], recording.status, recording.headers)
    http = subject.http(answer, recording=recording)
    async with subject.client(http) as client:
        stream = client.stream(subject.model_of(recording), "Hello", **subject.call_options())
        await _leave(stream, answer.stalled)
        require(answer.closed, "the connection is still open after the stream was closed")
    _require_all_closed("a closed stream", http)
    given = [each.response is answer for each in http.played].index(True)
    after = [each.request.method for each in http.played[given + 1 :]]
    for each in subject.recordings:
        for leg in each.legs:
            creates = any(earlier.kind == "whole" for earlier in each.before)
            if leg.kind == "abandon" and (part or creates):
                method, path = leg.request.method, leg.request.path
                what = f"a stream that is left does not send {method} {path}"
                require(method in after, f"{what}, unlike recording {each.name}")
                return


async def _abandon_played(subject: Subject, recording: Recording) -> None:
    """Close a stream after its `exchange` has yielded half of a recorded answer and stalls."""
    stalled = asyncio.Event()
    closed = asyncio.Event()

    async def half(_: Any) -> AsyncIterator[bytes]:
        try:
            yield recording.body[: len(recording.body) // 2]
            stalled.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    with patch.object(subject.provider, "exchange", half):
        async with subject.client() as client:
            stream = client.stream(subject.model_of(recording), "Hello", **subject.call_options())
            await _leave(stream, stalled)
            require(closed.is_set(), "`exchange` is not closed with the stream")


async def _leave(stream: EventStream, stalled: asyncio.Event) -> None:
    """Close a stream whose answer stalls, and check that it ends with Error(aborted)."""
    reader = asyncio.create_task(_read(stream))
    await _until_stalled(reader, stalled)
    if reader.done():
        fail(f"the stream ended while its answer was still coming: {reader.result()[-1]!r}")
    await stream.aclose()
    terminal = (await reader)[-1]
    require(
        isinstance(terminal, Error) and terminal.stop_reason is StopReason.ABORTED,
        f"a closed stream ends in {terminal!r:.200}, not in Error(aborted)",
    )


def _require_all_closed(where: str, http: PlayedClient) -> None:
    for played in http.played:
        is_closed = getattr(played.response, "closed", True)
        require(is_closed, f"{where}: the response of {shown(played.request)} is left open")


async def _read(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


async def _left_at(subject: Subject, types: Collection[type]) -> StopReason | None:
    """Close a stream after its first event of one of `types`, and return the stop reason."""
    async with subject.client().stream(subject.model, "Hello", **subject.call_options()) as stream:
        async for event in stream:
            if type(event) in types:
                break
    return stream.message.stop_reason


async def _abandon_in_process(subject: Subject) -> None:
    before = asyncio.all_tasks()
    ended = await _left_at(subject, CONTENT)
    if ended is not StopReason.ABORTED:  # the answer came with its first word: leave earlier
        ended = await _left_at(subject, {Start})
    require(ended is StopReason.ABORTED, f"a closed stream ends with {ended}, not with aborted")
    for _ in range(10):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    names = ", ".join(sorted(task.get_coro().__qualname__ for task in left))  # type: ignore[union-attr]  # tasks of coroutines have it
    require(not left, f"tasks are left after the stream was closed: {names}")


async def _require_closed(subject: Subject) -> None:
    """Check that every response is closed, whatever it contains, even if the call is cancelled."""
    for what, question in _questions(subject).items():
        for how in _HOW:
            silent = asyncio.Event()
            http = subject.http(lambda how=how, silent=silent: _answer(how, silent))
            http.is_open = True
            asked = asyncio.ensure_future(question(http))
            await _until_stalled(asked, silent)
            asked.cancel()
            with suppress(SwinkError, ProviderFailure, OSError, asyncio.CancelledError):
                await asked
            _require_all_closed(f"{what}, answered {how}", http)


def _questions(subject: Subject) -> dict[str, _Question]:
    """Return functions that send requests, such as a call; the keys describe the requests."""
    unlisted = subject.catalog.resolve(Model(subject.name, "swink-unlisted"))
    found: dict[str, _Question] = {
        "a call": subject.events_of_call,
        "a call of an unlisted model": lambda http: subject.events_of_call(http, unlisted),
        "a call with thinking": lambda http: subject.events_of_call(
            http, unlisted, thinking="high"
        ),
    }
    if (list_models := getattr(subject.provider, "list_models", None)) is not None:
        options = StreamOptions(api_key=subject.key(CANARY_KEY), base_url=NOWHERE)
        found["the list of models"] = lambda http: list_models(options, http)
    return found


def _answer(how: str, silent: asyncio.Event) -> MemoryResponse:
    match how:
        case "with nothing":
            return MemoryResponse(headers=_JSON)
        case "with JSON of nothing":
            return MemoryResponse([b"{}"], headers=_JSON)
        case "with too much":
            return MemoryResponse([_PIECE] * _LONG, headers=_JSON)
        case "and broken off":
            return MemoryResponse([b'{"a'], headers=_JSON, error=OSError("it is away"))
    stalling = _Stalling()
    stalling.stalled = silent
    return stalling

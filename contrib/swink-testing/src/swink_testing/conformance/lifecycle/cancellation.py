"""Abandoned streams: they end at once, and so does the work behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from swink_core import Error, Event, Start, StopReason
from swink_core.vocabulary.grammar import CONTENT
from swink_recorder.recording import Recording
from swink_testing.chunking import frame_ends
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.played import PlayedClient, shown
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse

__all__ = ["check_cancelling_closes"]


def check_cancelling_closes(subject: Subject) -> None:
    """Abandoning a stream ends it with Error(aborted) and closes its connection at once."""
    if subject.speaks_http:
        recording = subject.answers()[0]
        ends = frame_ends(recording.body, type(subject.provider).decoder)
        part = recording.body[: ends[len(ends) // 3]] if len(ends) > 3 else b""
        for begun in dict.fromkeys((part, b"")):
            asyncio.run(_cancel_over_http(subject, recording, begun))
    elif subject.can_be_called:
        asyncio.run(_cancel_in_process(subject))
    else:
        raise DoesNotApply("it answers from somewhere else: use --offline or --live")


class _Stalling(MemoryResponse):
    """Gives the first part of a recorded answer and then nothing more."""

    def __init__(self, recording: Recording, part: bytes) -> None:
        super().__init__([part], recording.status, recording.headers)
        self.stalled = asyncio.Event()

    async def __anext__(self) -> bytes:
        with suppress(StopAsyncIteration):
            return await super().__anext__()
        self.stalled.set()
        await asyncio.Event().wait()
        raise StopAsyncIteration


async def _cancel_over_http(subject: Subject, recording: Recording, part: bytes) -> None:
    """Leave a stream that has given this part of an answer and stalls."""
    answer = _Stalling(recording, part)
    http = subject.http(answer, recording=recording)
    async with subject.client(http) as client:
        stream = client.stream(subject.model_of(recording), "Hello", **subject.call_options())
        reader = asyncio.create_task(_read(stream))
        stalled = asyncio.create_task(answer.stalled.wait())
        await asyncio.wait((reader, stalled), return_when=asyncio.FIRST_COMPLETED)
        stalled.cancel()
        if reader.done():
            fail(f"the stream ended while its answer was still coming: {reader.result()[-1]!r}")
        await stream.aclose()
        terminal = (await reader)[-1]
        require(
            isinstance(terminal, Error) and terminal.stop_reason is StopReason.ABORTED,
            f"a closed stream ends in {terminal!r:.200}, not in Error(aborted)",
        )
        require(answer.closed, "the connection is still open after the stream was closed")
    for played in http.played:
        closed = getattr(played.response, "closed", True)
        require(closed, f"the answer to {shown(played.request)} is left open")
    _require_abandoned(subject, http, answer, bool(part))


def _require_abandoned(
    subject: Subject, http: PlayedClient, answer: MemoryResponse, has_begun: bool
) -> None:
    """Work that a recorded call left behind is ended by the recorded request.

    Where the answer has not begun, only an earlier request can have named that work.
    """
    given = [each.response is answer for each in http.played].index(True)
    after = [each.request.method for each in http.played[given + 1 :]]
    for recording in subject.recordings:
        for leg in recording.legs:
            if leg.kind == "abandon" and (has_begun or _creates(recording)):
                method, path = leg.request.method, leg.request.path
                what = f"a stream that is left does not send {method} {path}"
                require(method in after, f"{what}, unlike recording {recording.name}")
                return


def _creates(recording: Recording) -> bool:
    return any(leg.kind == "whole" for leg in recording.before)


async def _left_at(subject: Subject, types: Collection[type]) -> StopReason | None:
    """Leave a stream at its first event of these types, and say how it ended."""
    async with subject.client().stream(subject.model, "Hello", **subject.call_options()) as stream:
        async for event in stream:
            if type(event) in types:
                break
    return stream.message.stop_reason


async def _read(stream: Any) -> list[Event]:
    return [event async for event in stream]


async def _cancel_in_process(subject: Subject) -> None:
    before = asyncio.all_tasks()
    ended = await _left_at(subject, CONTENT)
    if ended is not StopReason.ABORTED:  # it came whole with its first word: leave before that
        ended = await _left_at(subject, {Start})
    require(ended is StopReason.ABORTED, f"a closed stream ends with {ended}, not with aborted")
    for _ in range(10):
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    names = ", ".join(sorted(task.get_coro().__qualname__ for task in left))  # type: ignore[union-attr]  # tasks of coroutines have it
    require(not left, f"tasks are left after the stream was closed: {names}")

"""Level 2: what fails says so, once, in order, with the right kind; and cancelling closes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from swink_core import Done, Error, Event, Notice, Start, StopReason
from swink_core import StreamErrorKind as Kind
from swink_core.vocabulary.grammar import CONTENT
from swink_recorder.recording import Recording
from swink_testing.chunking import frame_ends, truncations
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.played import PlayedClient, shown
from swink_testing.conformance.streaming import broken_rule
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, comparable, fold

__all__ = [
    "check_cancelling_closes",
    "check_http_errors",
    "check_in_stream_errors",
    "check_truncation",
]

STATUSES = {
    401: Kind.AUTH,
    403: Kind.AUTH,
    404: Kind.MODEL_NOT_FOUND,
    429: Kind.THROTTLED,
    500: Kind.NETWORK,
    503: Kind.OVERLOADED,
    529: Kind.OVERLOADED,
}
"""What a status means where the body says nothing more (RFC 9110; 529 is common for overload)."""

WAITS = (429, 503, 529)
"""Statuses that come with Retry-After, here."""

RETRY_AFTER = 7

_REFUSAL = {"error": {"message": "a check of the conformance kit"}}


def check_truncation(subject: Subject) -> None:
    """An answer cut before its completing frame ends in one network error, after it in Done."""

    async def cut() -> None:
        for recording in subject.answers():
            whole = comparable(fold(await subject.parse(recording)))
            complete_at = None
            ends = frame_ends(recording.body, type(subject.provider).decoder)
            for frames, body in truncations(recording.body, ends):
                where = f"recording {recording.name} cut after {frames} of {len(ends)} frames"
                events = await subject.parse(recording, [body])
                if (broken := broken_rule(events)) is not None:
                    fail(f"{where}: {broken}")
                terminal = events[-1]
                if isinstance(terminal, Error):
                    require(
                        terminal.error_kind is Kind.NETWORK,
                        f"{where} ends in Error({terminal.error_kind}), not in Error(network)",
                    )
                    require(
                        complete_at is None,
                        f"{where} ends in an error, though it was Done after {complete_at} frames",
                    )
                    continue
                complete_at = frames if complete_at is None else complete_at
                found = comparable(fold(events))
                require(
                    found.content == whole.content and found.stop_reason is whole.stop_reason,
                    f"{where} ends in Done({found.stop_reason}) with half an answer",
                )

    asyncio.run(cut())


def check_in_stream_errors(subject: Subject) -> None:
    """An error inside a stream ends it, with the kind that the recording's message states."""
    if not subject.parses:
        raise DoesNotApply("it has no parser: no bytes can be put through it")
    recordings = [recording for recording in subject.failures() if recording.status == 200]
    if not recordings:
        raise DoesNotApply("there is no recording of an error inside a stream")

    async def read() -> None:
        for recording in recordings:
            events = await subject.parse(recording)
            if (broken := broken_rule(events)) is not None:
                fail(f"recording {recording.name}: {broken}")
            _require_kind(f"recording {recording.name}", events[-1], recording)

    asyncio.run(read())


def check_http_errors(subject: Subject) -> None:
    """An HTTP error arrives as Start, Error with the right kind, and Retry-After is read."""
    _require_http(subject)

    async def ask() -> None:
        for status, kind in STATUSES.items():
            headers = {"Retry-After": str(RETRY_AFTER)} if status in WAITS else {}
            refused = [MemoryResponse.of_json(_REFUSAL, status, headers) for _ in range(3)]
            events = await _events(subject, subject.http(*refused))
            error = _only_error(f"HTTP {status}", events)
            require(
                error.error_kind is kind,
                f"HTTP {status} is Error({error.error_kind}), expected {kind}: "
                f"{error.error_message}",
            )
            require(error.status == status, f"HTTP {status} is reported as {error.status}")
            if status in WAITS:
                require(
                    error.retry_after == RETRY_AFTER,
                    f"HTTP {status}: Retry-After: {RETRY_AFTER} is read as {error.retry_after}",
                )
        for recording in subject.failures():
            if recording.status == 200:
                continue
            where = f"recording {recording.name}"
            answer = subject.http(MemoryResponse.of_recording(recording))
            events = await _events(subject, answer)
            _require_kind(where, _only_error(where, events), recording)

    asyncio.run(ask())


def check_cancelling_closes(subject: Subject) -> None:
    """Leaving a stream ends it with Error(aborted) and closes its connection at once."""
    if subject.speaks_http:
        recordings = subject.answers()
        asyncio.run(_cancel_over_http(subject, recordings[0]))
    elif subject.can_be_called:
        asyncio.run(_cancel_in_process(subject))
    else:
        raise DoesNotApply("it answers from somewhere else: use --offline or --live")


def _require_http(subject: Subject) -> None:
    if not subject.speaks_http:
        raise DoesNotApply("it does not speak HTTP")


async def _events(subject: Subject, http: Any, **options: Any) -> list[Event]:
    client = subject.client(http)
    async with client.stream(subject.model, "Hello", **subject.call_options(**options)) as stream:
        return [event async for event in stream]


def _only_error(where: str, events: list[Event]) -> Error:
    said = [event for event in events if not isinstance(event, Notice)]
    types = [event.type for event in said]
    require(types == ["start", "error"], f"{where} arrives as {', '.join(types)}")
    error = said[-1]
    assert isinstance(error, Error)  # its type says so
    require(error.error_message, f"{where}: the error has no message")
    return error


def _require_kind(where: str, terminal: Event, recording: Recording) -> None:
    assert recording.message is not None  # only such are called failures
    expected = recording.message.error_kind
    if not isinstance(terminal, Error):
        reason = terminal.stop_reason if isinstance(terminal, Done) else "?"
        fail(f"{where} ends in Done({reason}), expected Error({expected})")
    require(
        terminal.error_kind is expected,
        f"{where} is Error({terminal.error_kind}), expected {expected}: {terminal.error_message}",
    )
    require(terminal.error_message, f"{where}: the error has no message")


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


async def _cancel_over_http(subject: Subject, recording: Recording) -> None:
    ends = frame_ends(recording.body, type(subject.provider).decoder)
    part = recording.body[: ends[len(ends) // 3]] if len(ends) > 3 else b""
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
    _require_abandoned(subject, http, answer)


def _require_abandoned(subject: Subject, http: PlayedClient, answer: MemoryResponse) -> None:
    """Work that a recorded call left behind is ended by the recorded request."""
    given = [each.response is answer for each in http.played].index(True)
    after = [each.request.method for each in http.played[given + 1 :]]
    for recording in subject.recordings:
        for leg in recording.legs:
            if leg.kind == "abandon":
                method, path = leg.request.method, leg.request.path
                what = f"a stream that is left does not send {method} {path}"
                require(method in after, f"{what}, unlike recording {recording.name}")
                return


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

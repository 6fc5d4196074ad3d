"""Errors over HTTP and inside a stream."""

from __future__ import annotations

import asyncio
from typing import Any

from swink_core import Done, Error, Event, Notice
from swink_core import StreamErrorKind as Kind
from swink_recorder.recording import Recording
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse

__all__ = ["check_http_errors", "check_in_stream_errors"]

STATUSES = {
    401: Kind.AUTH,
    403: Kind.AUTH,
    404: Kind.MODEL_NOT_FOUND,
    429: Kind.THROTTLED,
    500: Kind.NETWORK,
    503: Kind.OVERLOADED,
    529: Kind.OVERLOADED,
}
"""The kind of a status if the body says nothing more (RFC 9110; 529 is common for overload)."""

WAITS = (429, 503, 529)
"""Statuses that come with Retry-After, here."""

RETRY_AFTER = 7

_REFUSAL = {"error": {"message": "a check of the conformance kit"}}


def check_in_stream_errors(subject: Subject) -> None:
    """An error inside a stream ends it, with the kind in the recording's message."""
    if not subject.parses:
        raise DoesNotApply("it has no parser: no bytes can be put through it")
    recordings = [recording for recording in subject.failures() if recording.status == 200]
    if not recordings:
        raise DoesNotApply("no recording contains an error inside a stream")

    async def read() -> None:
        for recording in recordings:
            events = await subject.parse(recording)
            if (broken := broken_rule(events)) is not None:
                fail(f"recording {recording.name}: {broken}")
            _require_kind(f"recording {recording.name}", events[-1], recording)

    asyncio.run(read())


def check_http_errors(subject: Subject) -> None:
    """An HTTP error becomes Start and Error with the right kind, and Retry-After is read."""
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

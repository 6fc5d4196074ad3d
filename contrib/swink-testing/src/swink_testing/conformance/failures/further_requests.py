"""Checks of faults in a call's additional requests, such as those for tokens or jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import patch

from attrs import define

from swink_core import (
    Done,
    Error,
    Event,
    EventStream,
    Failure,
    Host,
    Notice,
    ProviderFailure,
    RetryPolicy,
    StreamErrorKind,
)
from swink_recorder.legs import RecordedLeg
from swink_recorder.recording import Recording
from swink_testing.clock import ManualClock
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.played import PlayedClient, exchange_of, shown
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, PausingResponse, comparable, fold
from swink_testing.quiet import quiet

__all__ = ["check_further_requests"]


@define
class _Fault:
    """A fault of one request, and the kinds of error expected for it (empty: any)."""

    name: str
    answer: Callable[[], Any]
    kinds: tuple[StreamErrorKind, ...] = ()


def check_further_requests(subject: Subject) -> None:
    """If an additional request fails, the call fails too, unless the answer is already complete.

    After a complete answer, a Notice reports the failed request.
    """
    subject.require_http()
    recordings = subject.answers()
    recording = exchange_of(recordings) or next(
        (r for r in recordings if any(leg.kind == "token" for leg in r.legs)), None
    )
    if recording is None or len(recording.legs) < 2:
        raise DoesNotApply("no recording has several requests")

    async def ask() -> None:
        whole = (await _call(subject, recording, None, None))[0]
        for number, leg in enumerate(recording.legs):
            if number == len(recording.before) or not leg.request.method:
                continue
            for fault in _faults(leg):
                await _require(subject, recording, number, fault, whole)
            if number < len(recording.before):
                await _require_retried(subject, recording, number, whole)
        await _require_repeatable(subject, recording)

    # an unanswered request is abandoned after this time of the real clock
    with quiet(), patch("swink_core.providers.exchange.ABANDON_SECONDS", 0.05):
        asyncio.run(ask())


def _faults(leg: RecordedLeg) -> Iterator[_Fault]:
    kind = StreamErrorKind
    is_token = leg.kind == "token"
    half = leg.body[: len(leg.body) // 2]
    html = {"Content-Type": "text/html"}
    body = {"error": {"message": "a check of the conformance kit"}}

    def refused(status: int) -> Callable[[], Any]:
        return lambda: MemoryResponse.of_json(body, status)

    yield _Fault("refused with HTTP 400", refused(400), (kind.AUTH,) if is_token else ())
    yield _Fault("refused with HTTP 403", refused(403), (kind.AUTH,))
    throttled = (kind.NETWORK,) if is_token else (kind.THROTTLED,)
    yield _Fault("refused with HTTP 429", refused(429), throttled)
    away = (kind.NETWORK,) if is_token else (kind.OVERLOADED,)
    yield _Fault("refused with HTTP 503", refused(503), away)
    yield _Fault("not connected", _away, (kind.NETWORK,))
    yield _Fault("cut", lambda: MemoryResponse([half], leg.status, leg.headers))
    lost = lambda: MemoryResponse([half], leg.status, leg.headers, _away())  # noqa: E731
    yield _Fault("broken off", lost)
    yield _Fault("answered with nothing", lambda: MemoryResponse([], leg.status, leg.headers))
    yield _Fault("answered with a page", lambda: MemoryResponse([b"<p>Away"], 200, html))
    silent = lambda: PausingResponse((), leg.status, leg.headers)  # noqa: E731
    yield _Fault("not answered", silent, (kind.TIMEOUT,))


def _away() -> ProviderFailure:
    """Return the failure that the core's HTTP client raises if the connection is refused."""
    return ProviderFailure(Failure("connect", kind=StreamErrorKind.NETWORK, message="it is away"))


async def _call(
    subject: Subject,
    recording: Recording,
    number: int | None,
    fault: _Fault | None,
    retry: RetryPolicy | None = None,
) -> tuple[list[Event], PlayedClient]:
    """Make a call with a provider that has no access token yet.

    If `number` is not `None`, the request with this number gets `fault` as its response. If `retry`
    is `None`, the call is not retried.
    """
    host = Host(entry_points=[subject.entry], environ={})
    faults = {} if number is None or fault is None else {number: fault.answer}
    http = subject.http(
        lambda: MemoryResponse.of_recording(recording), recording=recording, faults=faults
    )
    http.is_open = True
    model, clock = subject.model_of(recording), ManualClock()
    async with (
        subject.client(http, host, clock, retry) as client,
        client.stream(model, "Hello", **subject.call_options()) as stream,
    ):
        reader = asyncio.ensure_future(_read(stream))
        while not reader.done():
            await clock.advance(1.0)
    return reader.result(), http


async def _read(stream: EventStream) -> list[Event]:
    return [event async for event in stream]


async def _require(
    subject: Subject, recording: Recording, number: int, fault: _Fault, whole: list[Event]
) -> None:
    leg = recording.legs[number]
    where = f"where {leg.request.method} {leg.request.path.partition('?')[0]} is {fault.name}"
    if leg.kind == "abandon":
        return
    events, http = await _call(subject, recording, number, fault)
    if (broken := broken_rule(events)) is not None:
        fail(f"{where}: {broken}")
    if number not in [played.leg for played in http.played]:
        return  # this call does not send it
    for played in http.played:
        is_closed = getattr(played.response, "closed", True)
        require(is_closed, f"{where}: the answer to {shown(played.request)} is left open")
    times = [played.leg for played in http.played].count(number)
    require(times == 1, f"{where}, it is sent {times} times, although retries are off")
    terminal = events[-1]
    if number > len(recording.before):
        found, expected = comparable(fold(events)), comparable(fold(whole))
        same = found.text == expected.text and all(b in expected.content for b in found.content)
        is_damage = isinstance(terminal, Error) and terminal.error_kind is StreamErrorKind.PROTOCOL
        is_kept = same and (is_damage or isinstance(terminal, Done))
        require(is_kept, f"{where}, the answer before it is lost")
        told = is_damage or any(isinstance(event, Notice) for event in events)
        require(told or fault.name == "answered with nothing", f"{where}, no Notice says so")
        return
    if not isinstance(terminal, Error):
        fail(f"{where}, the call ends in {terminal.type}")
    kind = terminal.error_kind
    kinds = " or ".join(fault.kinds)
    require(not fault.kinds or kind in fault.kinds, f"{where}: {kind}, expected {kinds}")
    require(terminal.error_message, f"{where}: the error has no message")


async def _require_retried(
    subject: Subject, recording: Recording, number: int, whole: list[Event]
) -> None:
    """Check that a call is retried and succeeds if one request of the call fails once."""
    answers = iter([MemoryResponse(status=503)])
    fault = _Fault("refused once", lambda: next(answers, None))
    events, http = await _call(subject, recording, number, fault, RetryPolicy(base=0.0))
    if number not in [played.leg for played in http.played]:
        return  # this call does not send it
    leg = recording.legs[number]
    where = f"where {leg.request.method} {leg.request.path.partition('?')[0]} fails once"
    found, expected = comparable(fold(events)), comparable(fold(whole))
    require(isinstance(events[-1], Done), f"{where}, the retried call ends in {events[-1]!r:.200}")
    require(found.content == expected.content, f"{where}, the retried call has another answer")


async def _require_repeatable(subject: Subject, recording: Recording) -> None:
    """Check that a second call makes the same requests, apart from those for tokens."""
    http = subject.http(lambda: MemoryResponse.of_recording(recording), recording=recording)
    http.is_open = True
    host = Host(entry_points=[subject.entry], environ={})
    calls: list[list[str]] = []
    async with subject.client(http, host) as client:
        for _ in range(2):
            before = len(http.played)
            options = subject.call_options()
            async with client.stream(subject.model_of(recording), "Hello", **options) as stream:
                events = [event async for event in stream]
            require(isinstance(events[-1], Done), f"a call made again ends in {events[-1]!r:.200}")
            sent = [each for each in http.played[before:] if not each.token]
            calls.append([shown(each.request) for each in sent])
    first, second = calls
    require(first == second, f"a second call sends {second}, the first sent {first}")

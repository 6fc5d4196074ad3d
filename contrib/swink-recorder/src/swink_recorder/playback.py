"""Replay a recorded attempt: the provider's own code parses the recorded bytes for a call.

A recorded attempt is a *take*; its *legs* are the requests of the attempt with their answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from copy import copy
from datetime import datetime
from typing import Any, Self, cast, get_args
from urllib.parse import urljoin, urlsplit

import msgspec
from attrs import evolve
from msgspec.structs import replace

from swink_core import (
    Call,
    Event,
    Failure,
    ProviderFailure,
    ResponseHead,
    StreamErrorKind,
    StreamOptions,
    load,
)
from swink_core.providers import Clock, HTTPProvider, HTTPRequest, Phase
from swink_recorder.legs import STREAMED, RecordedLeg
from swink_recorder.takes import Take

__all__ = ["AtOnce", "play"]

_PHASES = get_args(Phase)


class AtOnce:
    """A clock whose `sleep` returns at once, so that a replay skips the recorded waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def time(self) -> float:
        """Return monotonic seconds."""
        return self._clock.time()

    def now(self) -> datetime:
        """Return the date and time, with time zone."""
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        """Yield to other tasks."""
        await asyncio.sleep(0)

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `time()` has reached `when`."""
        return self._clock.call_at(when, callback)


def play(
    take: Take, call: Call, speed: float, cut: Callable[[], ProviderFailure], hint: str
) -> Any:
    """Return the events of a take for a call's attempt, at `speed` times the recorded speed.

    `speed` 0 replays without waits. `cut` creates the error for a take whose recording ends early.
    `hint` is the advice to show if the recorded call failed because of missing or rejected
    credentials (a replay needs no credentials). An HTTP provider parses the recorded bytes as if
    they came from the network. If the provider made several requests, it repeats them without
    credentials, and each request gets its recorded answer.
    """
    provider = call.attempt.target.binding.provider
    if speed == 0 and not isinstance(call.clock, AtOnce):
        call.clock = AtOnce(call.clock)
    if take.failure is not None and take.failure.kind is StreamErrorKind.AUTH:
        take = evolve(take, failure=replace(take.failure, resolution=hint))
    if not isinstance(provider, HTTPProvider):
        return _events(take, call, speed, cut)
    player = copy(provider)
    if len([leg for leg in take.recording.legs if leg.kind != "token"]) > 1:
        call.http = _Answers(take, call, speed, cut)
        player.credential = _no_credential  # type: ignore[method-assign]  # of this object
    else:
        player.exchange = lambda x: _reads(take, call, provider, speed, cut)  # type: ignore[method-assign]  # likewise
    return player.stream(call.model, call.context, call.options, call)


async def _events(
    take: Take, call: Call, speed: float, cut: Callable[[], ProviderFailure]
) -> AsyncIterator[Any]:
    began = call.clock.time()
    started = False
    starts = [number for number, (_, data) in enumerate(take.events) if data["type"] == "start"]
    for number, (seconds, data) in enumerate(take.events):
        # The core adds the notices before `Start` to the replay, so the recorded ones are omitted.
        started = started or data["type"] == "start"
        if not started:
            continue
        await _wait(call, began, seconds, speed)
        if data.get("error_kind") == StreamErrorKind.CANCELLED:
            raise cut()
        # The core creates the `retry` event after a failure from an error. A `retry` event before
        # a `start` is the provider's own: it restarts its answer.
        if data["type"] == "retry" and number > starts[-1]:
            yield call.error(_told(take))
        elif data.get("error_kind") == StreamErrorKind.AUTH and take.failure is not None:
            yield load(Event, {**data, "resolution": take.failure.resolution})
        else:
            yield load(Event, data)


async def _reads(
    take: Take,
    call: Call,
    provider: HTTPProvider,
    speed: float,
    cut: Callable[[], ProviderFailure],
) -> AsyncIterator[bytes]:
    recording, attempt, failure = take.recording, call.attempt, take.failure
    if recording.request.method:
        address = urljoin(take.asked.get("address", ""), recording.request.path)
        attempt.ask(HTTPRequest(address, method=recording.request.method), recording.kind)
    began = call.clock.time()
    if recording.status:
        head = ResponseHead(recording.status, _headers(recording.headers), began)
        attempt.answer(head, take.request_id)
    if take.charged is not None:
        attempt.report_cost(take.charged)
    refusal = _refusal(take, provider)
    if refusal is not None:
        call.tap(recording.body, attempt.leg)
        raise ProviderFailure(refusal)
    for seconds, piece in recording.pieces():
        await _wait(call, began, seconds, speed)
        yield piece
    if failure is not None and failure.kind is StreamErrorKind.CANCELLED:
        raise cut()
    if failure is not None and failure.code != "cut":  # the end of the body itself produces `cut`
        raise ProviderFailure(_told(take))


def _no_credential(request: HTTPRequest, options: StreamOptions) -> None:
    """Return `None`, so that a replay signs no requests. Replaces `HTTPProvider.credential`."""


class _Answers:
    """An HTTP client that answers requests from the legs of a take, in order."""

    def __init__(
        self, take: Take, call: Call, speed: float, cut: Callable[[], ProviderFailure]
    ) -> None:
        self._take = take
        self._left = [leg for leg in take.recording.legs if leg.kind != "token"]
        self._call = call
        self._speed = speed
        self._cut = cut
        self._began = call.clock.time()
        if take.charged is not None:
            call.attempt.report_cost(take.charged)

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> _Answer:
        """Return the recorded answer to a request.

        Raises ProviderFailure if the request was not recorded.
        """
        asked = request.method, urlsplit(request.url).path
        leg = next(
            (
                leg
                for leg in self._left
                if (leg.request.method, urlsplit(leg.request.path).path) == asked
            ),
            None,
        )
        if leg is None:
            raise self._cut()
        self._left.remove(leg)
        await _wait(self._call, self._began, leg.answered_at, self._speed)
        if not leg.status:
            raise self._end() or self._cut()
        is_answer = leg == self._take.recording.answer
        return _Answer(leg, self._call, self._speed, self._end if is_answer else _whole)

    def _end(self) -> ProviderFailure | None:
        """Return the recorded failure that interrupted the answer, or `None`."""
        failure = self._take.failure
        if failure is None or failure.code == "cut" or failure.phase == "request":
            return None
        if failure.kind is StreamErrorKind.CANCELLED:
            return self._cut()
        return ProviderFailure(_told(self._take))

    def close_idle(self) -> None:
        """Do nothing: no connections are open."""

    async def aclose(self) -> None:
        """Do nothing: no connections are open."""


def _whole() -> None:
    """Return `None`: the answer was recorded completely, so no failure follows its last byte."""


class _Answer:
    """A recorded answer, in the form of an HTTP client's response."""

    def __init__(
        self, leg: RecordedLeg, call: Call, speed: float, end: Callable[[], ProviderFailure | None]
    ) -> None:
        self.status = leg.status
        self.headers = _headers(leg.headers)
        self._call = call
        self._speed = speed
        self._end = end
        self._began = call.clock.time()
        self._pieces = iter(leg.pieces())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        for seconds, piece in self._pieces:
            await _wait(self._call, self._began, seconds, self._speed)
            if piece:
                return piece
        failure = self._end()
        if failure is not None:
            raise failure
        raise StopAsyncIteration

    def close(self) -> None:
        """Stop reading."""
        self._pieces = iter(())


async def _wait(call: Call, began: float, seconds: float, speed: float) -> None:
    await call.clock.sleep(began + seconds / speed - call.clock.time() if speed else 0.0)


def _refusal(take: Take, provider: HTTPProvider) -> Failure | None:
    """Return the recorded failure that occurred before a stream began, or `None`."""
    recording, told = take.recording, take.failure
    if told and recording.kind == "token" and told.kind is not StreamErrorKind.CANCELLED:
        return _told(take)  # the message comes from the grant, which a replay does not call
    if recording.status in STREAMED:
        unread = recording.status == 0 and not recording.body
        return _told(take) if told and (unread or told.phase == "request") else None
    body, headers = recording.body, _headers(recording.headers)
    failure = Failure("request", recording.status, headers, body)
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        provider.error_facts(failure)
    is_renewal_told = any(leg.kind == "token" for leg in recording.after)
    if told and (is_renewal_told or not failure.message):
        failure.message = told.message
    if told and told.kind is StreamErrorKind.AUTH:
        failure.resolution = told.resolution
    return failure


def _told(take: Take) -> Failure:
    """Return the recorded failure of a take."""
    told = take.failure
    assert told is not None
    phase = cast(Phase, told.phase if told.phase in _PHASES else "streaming")
    return Failure(
        phase,
        kind=told.kind,
        code=told.code,
        message=told.message,
        retry_after=told.retry_after,
        title=told.title,
        resolution=told.resolution,
    )


def _headers(headers: Mapping[str, str]) -> Mapping[str, str]:
    from multidict import CIMultiDict

    return CIMultiDict(headers)

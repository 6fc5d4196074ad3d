"""Plays a take to the call that asked for it: its bytes through the provider's own adapter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from copy import copy
from datetime import datetime
from typing import Any, cast, get_args
from urllib.parse import urljoin

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
    load,
)
from swink_core.providers import Clock, HTTPProvider, HTTPRequest, Phase
from swink_recorder.recording import STREAMED
from swink_recorder.takes import Take

__all__ = ["AtOnce", "play"]

_PHASES = get_args(Phase)


class AtOnce:
    """A clock on which no time passes in sleep, for waits that were waited for already."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def time(self) -> float:
        """Return monotonic seconds."""
        return self._clock.time()

    def now(self) -> datetime:
        """Return the date and the time, with their zone."""
        return self._clock.now()

    async def sleep(self, seconds: float) -> None:
        """Let others have a turn."""
        await asyncio.sleep(0)

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `time()` has reached `when`."""
        return self._clock.call_at(when, callback)


def play(
    take: Take, call: Call, speed: float, cut: Callable[[], ProviderFailure], hint: str
) -> Any:
    """Return a take's events for a call's present attempt, `speed` times as fast as they came.

    `speed` 0 is at once. `cut` makes what is raised after the end of a take that was not recorded
    to its end. `hint` is what to do about credentials that were refused or missing: nobody asks for
    any now. A provider that is asked over HTTP is asked for the events of the recorded bytes: of a
    copy of it, which goes nowhere for them.
    """
    provider = call.attempt.target.binding.provider
    if speed == 0 and not isinstance(call.clock, AtOnce):
        call.clock = AtOnce(call.clock)
    if take.failure is not None and take.failure.kind is StreamErrorKind.AUTH:
        take = evolve(take, failure=replace(take.failure, resolution=hint))
    if not isinstance(provider, HTTPProvider):
        return _events(take, call, speed, cut)
    player = copy(provider)
    player.exchange = lambda x: _reads(take, call, provider, speed, cut)  # type: ignore[method-assign]  # of this one object
    return player.stream(call.model, call.context, call.options, call)


async def _events(
    take: Take, call: Call, speed: float, cut: Callable[[], ProviderFailure]
) -> AsyncIterator[Any]:
    began = call.clock.time()
    started = False
    for seconds, data in take.events:
        started = started or data["type"] == "start"  # before it the core itself has its say
        if not started:
            continue
        await _wait(call, began, seconds, speed)
        if data.get("error_kind") == StreamErrorKind.CANCELLED:
            raise cut()
        if data["type"] == "retry":  # which the core makes of an error
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
        attempt.ask(HTTPRequest(address, method=recording.request.method))
    began = call.clock.time()
    if recording.status:
        head = ResponseHead(recording.status, _headers(recording.headers), began)
        attempt.answer(head, take.request_id)
    if take.charged is not None:
        attempt.charge(take.charged)
    refusal = _refusal(take, provider)
    if refusal is not None:
        call.tap(recording.body, attempt.leg)
        raise ProviderFailure(refusal)
    for seconds, piece in recording.pieces():
        await _wait(call, began, seconds, speed)
        yield piece
    if failure is not None and failure.kind is StreamErrorKind.CANCELLED:
        raise cut()
    if failure is not None and failure.code != "cut":  # that is what the end itself says
        raise ProviderFailure(_told(take))


async def _wait(call: Call, began: float, seconds: float, speed: float) -> None:
    await call.clock.sleep(began + seconds / speed - call.clock.time() if speed else 0.0)


def _refusal(take: Take, provider: HTTPProvider) -> Failure | None:
    """Return why there was no stream; `None` if there was one."""
    recording, told = take.recording, take.failure
    if recording.status in STREAMED:
        unread = recording.status == 0 and not recording.body
        return _told(take) if told and (unread or told.phase == "request") else None
    body, headers = recording.body, _headers(recording.headers)
    failure = Failure("request", recording.status, headers, body)
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        provider.error_facts(failure)
    if told and not failure.message:
        failure.message = told.message
    if told and told.kind is StreamErrorKind.AUTH:
        failure.resolution = told.resolution
    return failure


def _told(take: Take) -> Failure:
    """Return a failure in the words in which it was told."""
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

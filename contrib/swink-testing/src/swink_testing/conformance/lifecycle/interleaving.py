"""Calls that are made while another call of the provider waits for a response."""

from __future__ import annotations

import asyncio
from typing import Any

from attrs import define, field

from swink_core import AssistantMessage, Event, EventStream, Host
from swink_core.providers import HTTPRequest, HTTPResponse
from swink_core.vocabulary.grammar import CONTENT
from swink_recorder.recording import Recording
from swink_testing.clock import ManualClock
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.played import Played, PlayedClient, exchange_of, sent_by, shown
from swink_testing.conformance.subject import Subject
from swink_testing.driver import MemoryResponse, comparable, fold

__all__ = ["require_apart_while_waiting"]

_SECONDS = 10.0
"""The maximum number of seconds, by the real clock, that a call may take while another waits.

Such a call normally takes milliseconds.
"""

_WAITING = {"api_key": "sk-swink-of-the-waiting-call-2d7e", "base_url": "http://waiting.invalid/v1"}

_OTHER = {"api_key": "sk-swink-of-the-call-beside-it-90ab", "base_url": "http://beside.invalid/v1"}


async def require_apart_while_waiting(subject: Subject) -> None:
    """Check that a call that waits for a response is not affected by a second call.

    The second call has another key, base URL and answer. The check is repeated for each response of
    the first call. If a recording contains a request that is sent when a call is abandoned, the
    check is also made with an abandoned call.
    """
    try:
        answers = subject.answers()
    except DoesNotApply:
        return
    recording = exchange_of(answers) or answers[0]
    usage = recording.message and recording.message.usage
    others = [each for each in answers if each.message and each.message.usage != usage]
    pair = recording, (others or [recording])[-1]
    abandons = any(leg.kind == "abandon" for each in subject.recordings for leg in each.legs)
    for is_left in (False, True) if abandons else (False,):
        alone = _Pair(subject, *pair, is_left)
        message = await alone.run(None)
        for number, asked in enumerate(alone.http.played):
            if asked.token:
                continue  # calls may share a token, and then wait for it together
            beside = _Pair(subject, *pair, is_left)
            found = await beside.run(number)
            where = f"with another call while {shown(asked.request)} waits"
            _require_alike(where, alone.http.played, beside.http.played)
            require(is_left or found == message, f"{where}, the answer differs", found, message)


def _require_alike(where: str, alone: list[Played], beside: list[Played]) -> None:
    """Check that a call sends the same requests and key as it does without the other call."""
    own = [each.request for each in alone if not each.token]
    sent = [each.request for each in beside if not each.token]
    expected, found = [shown(request) for request in own], [shown(request) for request in sent]
    require(found == expected, f"{where}, its requests are {found}, expected {expected}")
    for one, other in zip(own, sent, strict=True):
        has_key = _WAITING["api_key"] in sent_by(one)
        is_right = not has_key or _WAITING["api_key"] in sent_by(other)
        require(is_right, f"{where}, {shown(other)} does not have the key of its call")
        is_apart = _OTHER["api_key"] not in sent_by(other)
        require(is_apart, f"{where}, {shown(other)} has the key of the other call")


@define
class _Pausing:
    """An HTTP client that delays the response to request `number` (`None`: delays none)."""

    http: PlayedClient
    number: int | None
    waits: asyncio.Event = field(factory=asyncio.Event)
    goes_on: asyncio.Event = field(factory=asyncio.Event)

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Answer a request; the delayed response waits until `goes_on` is set."""
        response = await self.http.send(request, connect_timeout)
        if len(self.http.played) - 1 == self.number:
            self.waits.set()
            await self.goes_on.wait()
        return response

    def close_idle(self) -> None:
        """Do nothing: no connections are open."""

    async def aclose(self) -> None:
        """Do nothing: no connections are open."""


class _Pair:
    """Two concurrent calls of the same provider."""

    def __init__(
        self, subject: Subject, recording: Recording, other: Recording, is_left: bool
    ) -> None:
        self.http = _http(subject, recording)
        self._subject = subject
        self._recording = recording
        self._other = other
        self._is_left = is_left

    async def run(self, number: int | None) -> AssistantMessage:
        """Make the first call, and the second call while request `number` of the first call waits.

        If `number` is `None`, the second call is not made. Returns the message of the first call.
        """
        subject = self._subject
        host = Host(entry_points=[subject.entry], environ={})
        http = _Pausing(self.http, number)
        async with (
            subject.client(http, host, ManualClock(jump=True)) as client,
            subject.client(
                _http(subject, self._other), host, ManualClock(jump=True)
            ) as other_client,
        ):
            reader = self._read(client, self._recording, _WAITING, self._is_left)
            if number is not None:
                waiting = asyncio.ensure_future(http.waits.wait())
                await asyncio.wait((reader, waiting), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                other = self._read(other_client, self._other, _OTHER, False)
                await asyncio.wait((other,), timeout=_SECONDS)
                ended = repr(other.result()[-1])[:200] if other.done() else "no event"
                is_done = other.done() and other.result()[-1].type == "done"
                other.cancel()
                what = f"while another call waits for {shown(self.http.played[-1].request)}"
                require(is_done, f"{what}, a call ends in {ended}")
            http.goes_on.set()
            events = await reader
        return comparable(fold(events))

    def _read(
        self, client: Any, recording: Recording, own: dict[str, str], is_left: bool
    ) -> asyncio.Future[list[Event]]:
        options = self._subject.call_options(**own)
        stream = client.stream(self._subject.model_of(recording), "Hello", **options)
        return asyncio.ensure_future(_events(stream, is_left))


def _http(subject: Subject, recording: Recording) -> PlayedClient:
    http = subject.http(lambda: MemoryResponse.of_recording(recording), recording=recording)
    http.is_open = True
    return http


async def _events(stream: EventStream, is_left: bool) -> list[Event]:
    """Read a stream to its end or, if `is_left` is true, close it at its first content."""
    events: list[Event] = []
    async with stream:
        async for event in stream:
            events.append(event)
            if is_left and type(event) in CONTENT:
                break
    return events

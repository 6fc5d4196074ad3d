"""One call against the chaos server, and what every call must keep, however it fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing
from functools import cache
from typing import Any

from attrs import define

import swink_core as swink
from swink_core.failures.kinds import KINDS
from swink_core.providers import AiohttpClient, Attempt
from swink_core.vocabulary.grammar import CONTENT
from swink_recorder.loopback import Exchange
from swink_test_helpers.fault_matrix.subject import FaultSubject
from swink_testing.calls import client_with
from swink_testing.chaos import ChaosServer, Fault
from swink_testing.clock import DatedClock, ManualClock, TurnClock
from swink_testing.conformance.answers.streaming import broken_rule
from swink_testing.conformance.subject import CANARY_KEY
from swink_testing.driver import comparable, fold

__all__ = ["STUCK_SECONDS", "Outcome", "asks_another_api", "assert_kept", "call", "requests_for"]

STUCK_SECONDS = 20.0
"""No call waits so long; one that does is stuck."""


class _Connections:
    """An `HTTPClient` that begins anew for each call: no connection is left of the last one."""

    def __init__(self) -> None:
        self._http = AiohttpClient()

    async def send(self, request: Any, connect_timeout: float | None) -> Any:
        return await self._http.send(request, connect_timeout)

    def close_idle(self) -> None:
        self._http.close_idle()

    async def aclose(self) -> None:
        await self._http.aclose()
        self._http = AiohttpClient()


class _Events:
    """Keeps the events that observers receive."""

    def __init__(self) -> None:
        self.events: list[swink.Event] = []

    @swink.hookimpl
    def on_event(self, event: swink.Event) -> None:
        self.events.append(event)


@cache
def _client() -> tuple[swink.Client, _Connections, _Events]:
    """Return a client for all calls: finding and reading every installed plugin takes its time."""
    http, observer = _Connections(), _Events()
    return client_with(plugins=[observer], api_key=CANARY_KEY, http=http), http, observer


@define
class Outcome:
    """How a call went, as caller, observers and server saw it.

    `sent` are the bytes of the body that the server could be rid of, `read` those that the call
    took in: sockets may hold the others.
    """

    stream: swink.EventStream
    events: list[swink.Event]
    requests: int
    sent: int
    read: int

    @property
    def call(self) -> swink.Call:
        return self.stream.call

    @property
    def message(self) -> swink.AssistantMessage:
        return self.stream.message

    @property
    def terminal(self) -> Any:
        return self.events[-1]

    @property
    def kind(self) -> swink.StreamErrorKind | None:
        return getattr(self.terminal, "error_kind", None)

    @property
    def notices(self) -> list[str]:
        return [e.code for e in self.events if isinstance(e, swink.Notice)]

    @property
    def attempts(self) -> int:
        return sum(isinstance(event, swink.Start) for event in self.events)


async def call(
    subject: FaultSubject,
    faults: Iterable[Fault] = (),
    *,
    base_url: Callable[[ChaosServer], str] | None = None,
    clock: ManualClock | None = None,
    step: float = 400.0,
    **options: Any,
) -> Outcome:
    """Make a call and hold what every call must keep, however it fails.

    A `clock` goes on by `step` seconds whenever an attempt has heard from its server.
    """
    client, http, observer = _client()
    client._clock = clock or DatedClock()
    observer.events = []
    options.setdefault("retry", swink.RetryPolicy(base=0.0))
    options.setdefault("malformed", "skip")
    async with (
        asyncio.timeout(STUCK_SECONDS),
        ChaosServer(clock=TurnClock()) as chaos,
        aclosing(http),
    ):
        url = chaos.add("case", subject.answer(), *faults) if faults else ""
        url = base_url(chaos) if base_url else url
        taken: list[int] = []
        async with client.stream(subject.name, "Hello", base_url=url, **options) as stream:
            stream.call.taps.append(lambda _, __, data: taken.append(len(data)))
            reader = asyncio.ensure_future(_collect(stream))
            if clock is not None:
                await _let_time_pass(clock, chaos, reader, _Heard(stream, faults), step)
            events = await reader
            for exchange in chaos.exchanges:
                assert await chaos.left(exchange), "the server saw no close"
        assert broken_rule(events) is None
        assert observer.events == events
        sent = sum(exchange.sent for exchange in chaos.exchanges)
        return Outcome(stream, events, len(chaos.exchanges), sent, sum(taken))


async def _collect(stream: swink.EventStream) -> list[swink.Event]:
    return [event async for event in stream]


async def _let_time_pass(
    clock: ManualClock, chaos: ChaosServer, reader: asyncio.Future[Any], heard: _Heard, step: float
) -> None:
    """Turn the clock as often as an attempt has got all that it will get."""
    while not reader.done():
        while not (reader.done() or heard.all_of(chaos.exchanges)):  # noqa: ASYNC110  # of sockets
            await asyncio.sleep(0.001)
        await clock.advance(step)


class _Heard:
    """How much has come to a client that is kept waiting, in silence or with empty words."""

    def __init__(self, stream: swink.EventStream, faults: Iterable[Fault]) -> None:
        self._call = stream.call
        self._bytes = 0
        [fault] = faults
        self._each = getattr(fault, "after", None) or 0
        self._endless = getattr(fault, "comments", False)
        self._before = 0
        stream.call.taps.append(self._count)

    def _count(self, _: Attempt, __: object, data: bytes) -> None:
        self._bytes += len(data)

    def all_of(self, exchanges: list[Exchange]) -> bool:
        """Tell whether every attempt has reached the server, and all its bytes the client.

        Of words without end: whether there were more since this was last so.
        """
        asked = len(exchanges)
        if asked != self._call.attempts or self._bytes < asked * self._each:
            return False
        if self._endless:
            before, self._before = self._before, self._bytes
            return self._bytes > before
        return True


# -- what to expect -------------------------------------------------------------------------------


async def requests_for(
    subject: FaultSubject, body: bytes, kind: swink.StreamErrorKind, retries: int | None = None
) -> int:
    """Return the number of requests of a call whose attempt fails with `kind` after `body`."""
    if any(type(event) in CONTENT for event in await subject.events(body)):
        return 1
    return 1 + (KINDS[kind].retries if retries is None else retries)


def asks_another_api(subject: FaultSubject) -> bool:
    """Tell whether the other API is used if a server lacks the one in the model's rules."""
    if "api" not in subject.provider.info.settings:
        return False
    elsewhere = swink.StreamOptions(base_url="http://elsewhere.example")
    name: str = subject.provider.api(subject.resolved, elsewhere).api_name
    return name == "responses"


async def assert_kept(subject: FaultSubject, outcome: Outcome, body: bytes) -> None:
    """Hold that what arrived is kept: exactly that, and the beginning of the good answer."""
    expected = comparable(fold(await subject.events(body)))
    got = comparable(outcome.message)
    assert got.content == expected.content
    whole = await subject.whole()
    for mine, full in zip(outcome.message.content, whole.content, strict=False):
        assert _said(full).startswith(_said(mine))


def _said(block: Any) -> str:
    if isinstance(block, swink.ToolCallBlock):
        return block.raw_arguments or ""
    return getattr(block, "text", None) or getattr(block, "thinking", None) or ""

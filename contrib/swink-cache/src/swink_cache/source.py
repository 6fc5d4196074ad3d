"""Get the events of an attempt from the cache, an identical running call, or the provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

import swink_core as swink
from swink_core.providers import EventSource, LoopClock

__all__ = ["Batch", "CachedSource"]

SETTLE_SECONDS = 5.0
"""How many seconds a connection may stay open after a complete answer."""

PAUSE_SECONDS = 2.0
"""How many seconds a call waits for a leading call whose reader pauses."""

Batch: TypeAlias = list[swink.Event]


class _Flight:
    """The request of a leading call.

    `landed` gets the answer for the waiting calls (`None`: one of them sends the request). `handed`
    are the events with which the reader of the leading call is busy (`None`: it waits for events).
    """

    def __init__(self) -> None:
        self.landed: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        self.handed: Batch | None = None


_Flights: TypeAlias = dict[tuple[Path, str], _Flight]

_in_flight: WeakKeyDictionary[asyncio.AbstractEventLoop, _Flights] = WeakKeyDictionary()
"""The running requests of each event loop; the caches of all clients share this table."""


class Cache(Protocol):
    """The interface of a cache."""

    path: Path

    async def find(self, key: str) -> bytes | None:
        """Return the cached answer, or `None`."""

    async def read(self, key: str, data: bytes) -> list[Batch] | None:
        """Return the events of an answer; `None` if it cannot be decoded."""

    def keep(self, key: str, batches: list[Batch]) -> asyncio.Task[bytes | None]:
        """Start to store an answer, and return the task; `None` if the answer is not stored."""


class CachedSource:
    """Yields the events of a cached answer, or else yields and stores the provider's `events`.

    Nothing happens before the first event is read. Of several identical calls, the first call reads
    the cache and sends the request ("leads"). The other calls wait for its answer. If the first
    call fails or is closed, or its reader pauses for `PAUSE_SECONDS`, one of the others leads.
    """

    def __init__(self, cache: Cache, key: str, events: Any, call: swink.Call) -> None:
        self._cache = cache
        self._key = key
        self._events = events
        self._call = call
        self._flight: _Flight | None = None
        self._flights: _Flights = {}
        self._leads = False  # this call leads: it must resolve the future for the waiting calls

    async def __aiter__(self) -> AsyncGenerator[swink.Event, None]:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """Yield lists of events: one list for each network read."""
        kept: list[Batch] = []
        try:
            held = await self._held()
            if held is not None:
                await _close(self._events)
                for batch in held:
                    yield batch
                return
            async with aclosing(_asked(self._events, self._call)) as batches:
                async for batch in batches:
                    _add(kept, batch)
                    if kept and isinstance(kept[-1][-1], swink.Done):
                        self._keep(kept)
                    if self._flight is not None:
                        self._flight.handed = batch
                    yield batch
                    if self._flight is not None:
                        self._flight.handed = None
        finally:
            if self._leads:
                self._land(None)

    async def _held(self) -> list[Batch] | None:
        """Return the answer from the cache or an identical call; `None` if there is neither."""
        loop = asyncio.get_running_loop()
        self._flights = _in_flight.setdefault(loop, {})
        name = self._cache.path, self._key
        while True:
            flight = self._flights.get(name)
            if flight is None:
                self._flight = self._flights[name] = _Flight()
                self._leads = True
                data = await self._cache.find(self._key)
            else:
                data = await self._landed(flight)
            held = None if data is None else await self._cache.read(self._key, data)
            if held is not None and self._leads:
                self._land(data)
            if held is not None or self._leads:
                return held

    async def _landed(self, flight: _Flight) -> bytes | None:
        """Wait for the answer of a leading call; let another call lead if its reader pauses."""
        while not flight.landed.done():
            handed = flight.handed
            await self._wait(flight)
            is_paused = handed is not None and flight.handed is handed
            if is_paused and not flight.landed.done():
                self._forget(flight)
                return None
        return flight.landed.result()

    async def _wait(self, flight: _Flight) -> None:
        """Wait until a flight has landed, but at most for `PAUSE_SECONDS`."""
        clock = self._call.clock
        over = asyncio.Event()
        flight.landed.add_done_callback(wake := lambda _: over.set())
        cancel = clock.call_at(clock.time() + PAUSE_SECONDS, over.set)
        try:
            await over.wait()
        finally:
            cancel()
            flight.landed.remove_done_callback(wake)

    def _forget(self, flight: _Flight) -> None:
        """Let the next call lead, unless another one leads already."""
        name = self._cache.path, self._key
        if self._flights.get(name) is flight:
            del self._flights[name]

    def _keep(self, kept: list[Batch]) -> None:
        """Store a complete answer, after the cost of the answer has been computed."""
        self._leads = False
        keeping = self._cache.keep(self._key, kept)
        keeping.add_done_callback(lambda done: self._land(_result(done)))

    def _land(self, data: bytes | None) -> None:
        """Give the answer to the waiting calls; with `None`, one of them sends the request."""
        self._leads = False
        if (flight := self._flight) is not None:
            self._forget(flight)
            if not flight.landed.done():
                flight.landed.set_result(data)


def _add(kept: list[Batch], batch: Batch) -> None:
    while swink.Retry in map(type, batch):  # earlier events are discarded
        kept.clear()
        batch = batch[[*map(type, batch)].index(swink.Retry) + 1 :]
    if batch:
        kept.append([*batch])


def _result(done: asyncio.Task[bytes | None]) -> bytes | None:
    return None if done.cancelled() or done.exception() is not None else done.result()


async def _asked(events: Any, call: swink.Call) -> AsyncGenerator[Batch, None]:
    """Yield the events that another plugin returned, as one list for each network read."""
    if isinstance(events, EventSource):
        async with aclosing(_of_the_core(events, call)) as batches:
            async for batch in batches:
                yield batch
    elif hasattr(events, "batches"):
        async with aclosing(events.batches()) as batches:
            async for batch in batches:
                yield batch
    else:
        try:
            async for event in events:
                yield [event]
        finally:
            await _close(events)


async def _of_the_core(source: EventSource, call: swink.Call) -> AsyncGenerator[Batch, None]:
    """Yield the events of the core's `EventSource`, as one list for each network read.

    Close the source if its connection stays open for too long after the answer is complete.
    """
    try:
        yield source.begin()
        while not source.ended:
            try:
                async with LoopClock.limit(SETTLE_SECONDS if source.completed else None):
                    data = await source.pull()
            except TimeoutError:
                batch = source.settle()
            except Exception as error:
                batch = source.fail(error)
            else:
                batch = source.take(data)
            yield batch
    finally:
        await source.aclose()


async def _close(events: Any) -> None:
    close = getattr(events, "aclose", None)
    if close is not None:
        await close()

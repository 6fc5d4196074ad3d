"""A clock that stands still until a test turns it."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count

from attrs import define, field

from swink_core.providers import LoopClock

__all__ = ["BEGAN", "DatedClock", "ManualClock", "TurnClock"]

TURNS = 20
"""Rounds of the event loop in which what was woken may run before the clock goes on."""


BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
"""When a clock begins that is not told when."""


@define(order=True)
class _Alarm:
    when: float
    number: int
    callback: Callable[[], None] = field(order=False)
    cancelled: bool = field(default=False, order=False)

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """A `Clock` for `Client(clock=…)` and for plugins that wait by `call.clock`.

    `advance` moves the time and wakes what is due, in order. With `jump`, no sleep waits: a sleep
    moves the time itself and returns. `sleeps` keeps every requested length. `began` is
    the date and the time at 0 seconds.
    """

    def __init__(self, start: float = 0.0, *, jump: bool = False, began: datetime = BEGAN) -> None:
        self.sleeps: list[float] = []
        self._now = start
        self._jump = jump
        self._began = began
        self._alarms: list[_Alarm] = []
        self._numbers = count()

    def time(self) -> float:
        """Return the seconds that the test has turned the clock to."""
        return self._now

    def now(self) -> datetime:
        """Return the date and the time that the test has turned the clock to."""
        return self._began + timedelta(seconds=self._now)

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has moved so far; at once for 0 or less."""
        self.sleeps.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
        elif self._jump:
            await self.advance(seconds)
        else:
            woken = asyncio.Event()
            cancel_alarm = self.call_at(self._now + seconds, woken.set)
            try:
                await woken.wait()
            finally:
                cancel_alarm()

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the clock reaches `when`; a past time: when it moves.

        Return a function that cancels it.
        """
        alarm = _Alarm(when, next(self._numbers), callback)
        heapq.heappush(self._alarms, alarm)
        return alarm.cancel

    async def advance(self, seconds: float) -> None:
        """Move the time, stopping at each alarm on the way and letting it act."""
        end = self._now + seconds
        await _settle()
        while self._alarms and self._alarms[0].when <= end:
            alarm = heapq.heappop(self._alarms)
            if not alarm.cancelled:
                self._now = max(self._now, alarm.when)
                alarm.callback()
                await _settle()
        self._now = max(self._now, end)


async def _settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


class DatedClock(LoopClock):
    """The event loop's time, on a day of the test's own."""

    def __init__(self, day: datetime = datetime(2026, 6, 1, tzinfo=UTC)) -> None:
        self._day = day

    def now(self) -> datetime:
        """Return that day."""
        return self._day


class TurnClock(LoopClock):
    """The event loop's time, without sleeps: all else in the loop has its turn instead.

    A server that waits by it lets a client of the same loop read what was sent before it sends
    more, however busy the machine is.
    """

    async def sleep(self, seconds: float) -> None:
        """Return when what is ready has run, and then what had become ready by that."""
        for _ in range(2):
            await asyncio.sleep(0)

"""A clock whose time changes only when a test advances it."""

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
"""Woken tasks get this many iterations of the event loop before the clock advances further."""


BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
"""The date and time at which a clock begins by default."""


@define(order=True)
class _Alarm:
    when: float
    number: int
    callback: Callable[[], None] = field(order=False)
    cancelled: bool = field(default=False, order=False)

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """A `Clock` for `Client(clock=…)` and for plugins that sleep with `call.clock`.

    `advance` moves the time, and wakes the due sleeps and callbacks in order. With `jump`, a sleep
    advances the clock itself and returns at once. `sleeps` lists the length of every requested
    sleep, in seconds. `began` is the date and time at 0 seconds.
    """

    def __init__(self, start: float = 0.0, *, jump: bool = False, began: datetime = BEGAN) -> None:
        self.sleeps: list[float] = []
        self._now = start
        self._jump = jump
        self._began = began
        self._alarms: list[_Alarm] = []
        self._numbers = count()

    def time(self) -> float:
        """Return the time of the clock, in seconds."""
        return self._now

    def now(self) -> datetime:
        """Return the date and time of the clock."""
        return self._began + timedelta(seconds=self._now)

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has advanced by `seconds`; return at once for 0 or less."""
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
        """Call `callback` when the clock reaches `when` or, if that is past, when it next advances.

        Return a function that cancels the callback.
        """
        alarm = _Alarm(when, next(self._numbers), callback)
        heapq.heappush(self._alarms, alarm)
        return alarm.cancel

    async def advance(self, seconds: float) -> None:
        """Advance the time, and stop at each due sleep or callback to let it run."""
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
    """A clock with the event loop's time, but a date that the test chooses."""

    def __init__(self, day: datetime = datetime(2026, 6, 1, tzinfo=UTC)) -> None:
        self._day = day

    def now(self) -> datetime:
        """Return the chosen date."""
        return self._day


class TurnClock(LoopClock):
    """A clock with the event loop's time, on which a sleep only lets other tasks run.

    If a server sleeps with this clock, a client in the same event loop reads the sent bytes before
    the server sends more, even on a busy machine.
    """

    async def sleep(self, seconds: float) -> None:
        """Return when all ready tasks have run, including tasks that became ready meanwhile."""
        for _ in range(2):
            await asyncio.sleep(0)

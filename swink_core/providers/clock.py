"""The default clock, which uses the time of the running event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil
from typing import TypeAlias

from swink_core.plugins.time_limits import time_limit

COARSE_FROM = 100.0
"""Timers that are this many seconds away or more are coarse: they fire at a multiple of `GRAIN`."""

GRAIN = 1.0
"""The maximum delay of a coarse timer, in seconds."""

Timers: TypeAlias = dict[object, Callable[[], None]]
"""The callbacks that share one timer of an event loop. A callback is cancelled by its key."""


class LoopClock:
    """A clock that uses the time of the running event loop.

    Most timers are time limits of calls: they are set for minutes and cancelled soon. asyncio keeps
    a cancelled timer in its queue, which slows down all others. Therefore coarse timers that are
    due in the same second share one timer of the event loop.
    """

    time = staticmethod(time.monotonic)
    limit = staticmethod(time_limit)

    # The loop and its timers are stored as one pair: threads with a loop each may share a clock.
    _shared: tuple[object, dict[float, Timers]] = (None, {})

    def now(self) -> datetime:
        """Return the current date and time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` in the running loop when `time()` has reached `when`.

        If `when` is `COARSE_FROM` seconds away or more, the call may be up to `GRAIN` seconds late.
        Return a function that cancels the timer.
        """
        loop = asyncio.get_running_loop()
        delay = max(0.0, when - self.time())
        if delay < COARSE_FROM:
            return loop.call_later(delay, callback).cancel
        of_loop, shared = self._shared
        if of_loop is not loop:
            shared = {}
            self._shared = (loop, shared)
        moment = ceil(when / GRAIN) * GRAIN
        timers = shared.get(moment)
        if timers is None:
            timers = shared[moment] = {}
            loop.call_later(delay + moment - when, self._fire, loop, shared, moment)
        key = object()
        timers[key] = callback

        def cancel() -> None:
            timers.pop(key, None)

        return cancel

    def _fire(
        self, loop: asyncio.AbstractEventLoop, shared: dict[float, Timers], moment: float
    ) -> None:
        """Schedule the callbacks that are due at `moment`, one by one.

        If a callback raises an exception, the event loop reports it and still runs the others.
        """
        timers = shared.pop(moment)
        for key in [*timers]:
            loop.call_soon(_call, timers, key)


def _call(timers: Timers, key: object) -> None:
    """Call a callback, unless it was cancelled."""
    callback = timers.pop(key, None)
    if callback is not None:
        callback()

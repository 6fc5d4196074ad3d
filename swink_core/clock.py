"""Time, as the core sees it, so that tests can bring their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "LoopClock", "Timer"]


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """This will keep the callback from being called."""


class Clock(Protocol):
    """Monotonic seconds, sleeping and timers."""

    def time(self) -> float:
        """This will return monotonic seconds."""

    async def sleep(self, seconds: float) -> None:
        """This will return after `seconds`; cancelling the task ends it at once."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """This will call `callback` when `time()` has reached `when`."""


class LoopClock:
    """The running event loop's time."""

    time = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """This will return after `seconds`."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """This will call `callback` in the running loop when `time()` has reached `when`."""
        return asyncio.get_running_loop().call_later(max(0.0, when - self.time()), callback)

"""The interface of clocks, so that tests can replace the time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Provides monotonic time, the date and time of day, sleeping, and timers."""

    def time(self) -> float:
        """Return a monotonic time in seconds."""

    def now(self) -> datetime:
        """Return the current date and time, with time zone."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; cancelling the task ends the sleep at once."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `time()` has reached `when`.

        Return a function that cancels the timer.
        """

"""Time, as the core sees it, so that tests can bring their own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Monotonic seconds, sleeping and timers, and the day and time of day."""

    def time(self) -> float:
        """Return monotonic seconds."""

    def now(self) -> datetime:
        """Return the date and the time, with their zone."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; cancelling the task ends it at once."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `time()` has reached `when`, unless the result is called before."""

"""Time, as the core sees it, so that tests can bring their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """Keep the callback from being called."""


class Clock(Protocol):
    """Monotonic seconds, sleeping and timers."""

    def time(self) -> float:
        """Return monotonic seconds."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`; cancelling the task ends it at once."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` when `time()` has reached `when`."""

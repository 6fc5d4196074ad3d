"""The running event loop's time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime


class LoopClock:
    """The running event loop's time."""

    time = staticmethod(time.monotonic)

    def now(self) -> datetime:
        """Return the date and the time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` in the running loop when `time()` has reached `when`.

        Return a function that cancels it.
        """
        delay = max(0.0, when - self.time())
        return asyncio.get_running_loop().call_later(delay, callback).cancel

"""The running event loop's time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from swink_core.vocabulary.clock import Timer


class LoopClock:
    """The running event loop's time."""

    time = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        await asyncio.sleep(seconds)

    def call_at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in the running loop when `time()` has reached `when`."""
        return asyncio.get_running_loop().call_later(max(0.0, when - self.time()), callback)

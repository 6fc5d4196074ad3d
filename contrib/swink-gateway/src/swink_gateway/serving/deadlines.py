"""Limits of time by a clock that tests can turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from swink_core.providers import Clock

__all__ = ["time_limit"]


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Have the block end within so many seconds of `clock`, or raise TimeoutError out of it."""
    async with asyncio.timeout(None) as limit:
        timer = clock.call_at(clock.time() + seconds, lambda: limit.reschedule(0))
        try:
            yield
        finally:
            timer.cancel()

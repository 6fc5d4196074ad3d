"""Time as the vendor sees it: the machine's clock, or one that a test moves."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "ManualClock", "SystemClock", "timestamp"]


class Clock(Protocol):
    """Where the vendor reads the time and waits."""

    def now(self) -> float:
        """Return the time as seconds since 1970."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return the time as seconds since 1970."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds` of real time."""
        await asyncio.sleep(seconds)


class ManualClock:
    """A clock that stands still until a test calls `advance`, or until a coroutine sleeps on it.

    With `jumps` a sleep ends at once and moves the clock instead, so that a paced stream takes no
    real time and its timestamps are exact. Without, a sleep waits for `advance`.
    """

    def __init__(self, start: float = 1_790_000_000.0, *, jumps: bool = True) -> None:
        self._now = start
        self._jumps = jumps
        self._moved = asyncio.Event()

    def now(self) -> float:
        """Return the time as seconds since 1970."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the clock, and wake those whose sleep is over."""
        self._now += seconds
        self._moved.set()
        self._moved = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has moved by `seconds`."""
        if self._jumps:
            self._now += seconds
            await asyncio.sleep(0)
            return
        until = self._now + seconds
        while self._now < until:
            await self._moved.wait()


def timestamp(seconds: float) -> str:
    """Write a time, given as seconds since 1970, as Google and Ollama do."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

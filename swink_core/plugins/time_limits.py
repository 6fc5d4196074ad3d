"""Limit the time of a block, also in a task that was cancelled before."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractAsyncContextManager
from types import TracebackType

_COUNTS_CANCELLATIONS = sys.version_info[:3] >= (3, 11, 3)
"""Whether `asyncio.timeout` ignores cancellations from before its block (CPython, gh-102780)."""


def time_limit(seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
    """Limit an `async with` block to a number of seconds; raises TimeoutError. `None`: no limit.

    Use it in place of `asyncio.timeout`, whose object it gives. Before Python 3.11.3,
    `asyncio.timeout` raises CancelledError instead if the task was cancelled before the block, for
    example during its cleanup.
    """
    limit = asyncio.timeout(seconds)
    return limit if _COUNTS_CANCELLATIONS else _Counting(limit)


class _Counting:
    """A limit that compares the number of cancellations before and after the block."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit

    async def __aenter__(self) -> asyncio.Timeout:
        self._task = asyncio.current_task()
        self._before = self._cancelling()
        return await self._limit.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._limit.__aexit__(kind, error, traceback)
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if is_cancelled and self._limit.expired() and self._cancelling() <= self._before:
            raise TimeoutError from error

    def _cancelling(self) -> int:
        return 0 if self._task is None else self._task.cancelling()

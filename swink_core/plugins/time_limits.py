"""Limit the time of a block, also in a task that was cancelled before."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

_COUNTS_CANCELLATIONS = sys.version_info[:3] >= (3, 11, 3)
"""Whether `asyncio.timeout` ignores cancellations from before its block (CPython, gh-102780)."""


def time_limit(seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
    """Limit an `async with` block to a number of seconds; raises TimeoutError. `None`: no limit.

    Use it in place of `asyncio.timeout`, whose object it gives. Before Python 3.11.3,
    `asyncio.timeout` raises CancelledError instead if the task was cancelled before the block, for
    example during its cleanup.
    """
    limit = asyncio.timeout(seconds)
    return limit if _COUNTS_CANCELLATIONS else _counting(limit)


@asynccontextmanager
async def _counting(limit: asyncio.Timeout) -> AsyncGenerator[asyncio.Timeout, None]:
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        async with limit:
            yield limit
    except asyncio.CancelledError as error:
        if limit.expired() and task is not None and task.cancelling() <= before:
            raise TimeoutError from error
        raise

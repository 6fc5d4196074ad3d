"""A limit of a block's time raises TimeoutError, whatever happened to the task before."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any

import pytest

from swink_core.plugins.time_limits import _Counting, time_limit


class OfPython3112:
    """`asyncio.timeout` of Python 3.11.2: a task that is being cancelled gets CancelledError."""

    def __init__(self, seconds: float | None) -> None:
        self._limit = asyncio.timeout(seconds)
        self.expired = self._limit.expired

    async def __aenter__(self) -> OfPython3112:
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> bool | None:
        try:
            return await self._limit.__aexit__(kind, error, at)
        except TimeoutError:
            if cancellations() == 0:
                raise
            return None


def cancellations() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


def on_python_3112(seconds: float | None) -> Any:
    limit: Any = OfPython3112(seconds)
    return _Counting(limit)


LIMITS = pytest.mark.parametrize("limited", [time_limit, on_python_3112])


async def cancelled_before() -> None:
    """Return once the current task has caught a cancellation."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)


async def test_without_the_mend_a_task_that_was_cancelled_before_gets_cancelled_error() -> None:
    await cancelled_before()
    with pytest.raises(asyncio.CancelledError):
        async with OfPython3112(0):
            await asyncio.Event().wait()


@LIMITS
@pytest.mark.parametrize("times", [0, 1, 2])
async def test_a_block_that_takes_too_long_raises_timeout_error(limited: Any, times: int) -> None:
    for _ in range(times):
        await cancelled_before()
    with pytest.raises(TimeoutError):
        async with limited(0) as limit:
            await asyncio.Event().wait()
    assert limit.expired()
    assert cancellations() == times


async def cancelled_at_once() -> None:
    """Cancel the current task, and wait."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.Event().wait()


async def cancelled_when_late() -> None:
    """Wait, and cancel the current task once more when its wait is ended."""
    try:
        await asyncio.Event().wait()
    finally:
        await cancelled_at_once()


async def within(limit: Any, block: Callable[[], Awaitable[None]]) -> None:
    async with limit:
        await block()


@LIMITS
@pytest.mark.parametrize(
    ("seconds", "block"),
    [(None, cancelled_at_once), (100, cancelled_at_once), (0, cancelled_when_late)],
)
async def test_a_cancellation_within_the_block_comes_before_its_limit(
    limited: Any, seconds: float | None, block: Callable[[], Awaitable[None]]
) -> None:
    await cancelled_before()
    with pytest.raises(asyncio.CancelledError):
        await within(limited(seconds), block)
    assert cancellations() == 2


@LIMITS
async def test_other_errors_of_the_block_stay_as_they_are(limited: Any) -> None:
    with pytest.raises(KeyError):
        async with limited(100.0):
            raise KeyError("of the block")


@LIMITS
async def test_a_block_that_ends_in_time_is_not_changed(limited: Any) -> None:
    await cancelled_before()
    async with limited(100.0) as limit:
        await asyncio.sleep(0)
    assert not limit.expired()


@LIMITS
def test_a_coroutine_that_is_closed_within_the_block_raises_no_error(limited: Any) -> None:
    @types.coroutine
    def pause() -> Generator[None, None, None]:
        yield

    async def paused() -> None:
        async with limited(100):
            await pause()

    begun = paused()

    async def begin() -> None:
        begun.send(None)

    asyncio.run(begin())
    begun.close()

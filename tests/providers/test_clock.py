"""The running loop's time."""

from __future__ import annotations

import asyncio

import pytest

from swink_core.providers.clock import LoopClock


async def test_time_passes_while_a_sleep_lasts() -> None:
    clock = LoopClock()
    began = clock.time()
    await clock.sleep(0.01)
    assert clock.time() - began >= 0.009


async def test_a_timer_calls_when_its_time_has_come_and_not_if_it_was_cancelled() -> None:
    clock, called = LoopClock(), asyncio.Event()
    clock.call_at(clock.time() + 10, pytest.fail)()
    clock.call_at(clock.time() - 10, called.set)  # a time in the past is now
    await called.wait()


async def test_cancelling_a_sleep_ends_it_at_once() -> None:
    sleeping = asyncio.create_task(LoopClock().sleep(1000))
    await asyncio.sleep(0)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping

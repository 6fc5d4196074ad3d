"""`ManualClock`: nothing happens until the test turns it."""

from __future__ import annotations

import asyncio

import pytest

from swink_testing.clock import ManualClock


async def test_time_stands_still_by_itself() -> None:
    clock = ManualClock(100.0)

    await asyncio.sleep(0.01)

    assert clock.time() == 100.0


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock = ManualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.time()))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(sleeper("late", 3.0))
        tasks.create_task(sleeper("twice", 1.0, 1.0))
        await clock.advance(2.5)
        assert woken == [("twice", 1.0), ("twice", 2.0)]
        await clock.advance(0.5)

    assert woken[-1] == ("late", 3.0)
    assert clock.sleeps == [3.0, 1.0, 1.0]


async def test_timers_fire_at_their_times_and_may_set_others() -> None:
    clock = ManualClock()
    fired: list[float] = []

    def fire() -> None:
        fired.append(clock.time())
        if len(fired) < 3:
            clock.call_at(clock.time() + 2.0, fire)

    clock.call_at(1.0, fire)
    await clock.advance(4.0)

    assert fired == [1.0, 3.0]
    assert clock.time() == 4.0


async def test_timers_of_one_time_fire_in_the_order_in_which_they_were_set() -> None:
    clock = ManualClock()
    fired: list[str] = []

    for name in "abc":
        clock.call_at(1.0, lambda name=name: fired.append(name))
    await clock.advance(1.0)

    assert fired == ["a", "b", "c"]


async def test_a_cancelled_timer_does_not_fire() -> None:
    clock = ManualClock()
    fired: list[int] = []

    clock.call_at(1.0, lambda: fired.append(1))()
    await clock.advance(2.0)

    assert fired == []


async def test_a_timer_whose_time_is_past_fires_when_the_clock_moves_and_not_back_in_time() -> None:
    clock = ManualClock(10.0)
    fired: list[float] = []

    clock.call_at(5.0, lambda: fired.append(clock.time()))
    await clock.advance(0.0)

    assert fired == [10.0]


async def test_a_sleep_can_be_cancelled() -> None:
    clock = ManualClock()
    sleeper = asyncio.create_task(clock.sleep(5.0))
    await clock.advance(1.0)

    sleeper.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeper
    await clock.advance(10.0)

    assert clock.time() == 11.0


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_a_sleep_of_nothing_returns_by_itself(seconds: float) -> None:
    clock = ManualClock()

    await clock.sleep(seconds)

    assert clock.time() == 0.0


async def test_with_jump_a_sleep_moves_the_clock_and_fires_what_is_due() -> None:
    clock = ManualClock(jump=True)
    fired: list[float] = []
    clock.call_at(2.0, lambda: fired.append(clock.time()))

    await clock.sleep(3.0)

    assert clock.time() == 3.0
    assert fired == [2.0]
    assert clock.sleeps == [3.0]

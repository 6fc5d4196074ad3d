"""The running loop's time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from swink_core.providers import clock as clocks
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


def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the delays of the timers that the running loop makes from now on, in seconds."""
    loop = asyncio.get_running_loop()
    made: list[float] = []
    call_later = loop.call_later

    def noting(delay: float, *rest: Any) -> asyncio.TimerHandle:
        made.append(delay)
        return call_later(delay, *rest)

    monkeypatch.setattr(loop, "call_later", noting)
    return made


async def test_a_timer_whose_time_has_passed_is_due_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = delays(monkeypatch)
    clock = LoopClock()
    clock.call_at(clock.time() - 10, pytest.fail)()
    assert made == [0.0]


async def test_cancelling_a_sleep_ends_it_at_once() -> None:
    sleeping = asyncio.create_task(LoopClock().sleep(1000))
    await asyncio.sleep(0)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> LoopClock:
    """Return a clock all of whose timers share those of the loop, due in the same moment."""
    monkeypatch.setattr(clocks, "COARSE_FROM", 0.0)
    monkeypatch.setattr(clocks, "GRAIN", 0.02)
    return LoopClock()


async def test_timers_that_are_due_in_the_same_moment_share_one_of_the_loop(
    coarse: LoopClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = delays(monkeypatch)
    called: list[str] = []
    done = asyncio.Event()
    start = (coarse.time() // clocks.GRAIN + 2) * clocks.GRAIN
    due = start + clocks.GRAIN / 2
    coarse.call_at(due, lambda: called.append("first"))
    cancel = coarse.call_at(due, lambda: called.append("cancelled"))
    coarse.call_at(due, lambda: called.append("second"))
    coarse.call_at(due, done.set)
    cancel()
    cancel()
    assert len(made) == 1
    await done.wait()
    assert called == ["first", "second"]
    assert coarse.time() >= due


async def test_a_coarse_timer_may_be_cancelled_by_another_of_its_moment_and_outlives_an_exception(
    coarse: LoopClock,
) -> None:
    loop = asyncio.get_running_loop()
    reports: list[Any] = []
    loop.set_exception_handler(lambda _, context: reports.append(context["exception"]))
    done = asyncio.Event()
    due = coarse.time()
    cancels: list[Any] = []
    coarse.call_at(due, lambda: cancels[0]())
    coarse.call_at(due, lambda: 1 / 0)  # type: ignore[arg-type, return-value]  # never returns
    cancels.append(coarse.call_at(due, pytest.fail))
    coarse.call_at(due, done.set)
    await done.wait()
    assert [type(error) for error in reports] == [ZeroDivisionError]


def test_a_clock_serves_one_loop_after_another(coarse: LoopClock) -> None:
    async def wait() -> bool:
        done = asyncio.Event()
        coarse.call_at(coarse.time(), done.set)
        return await done.wait()

    assert [asyncio.run(wait()) for _ in range(2)] == [True, True]


def test_a_timer_of_a_loop_that_ended_does_not_hold_up_those_of_the_next(
    coarse: LoopClock,
) -> None:
    due = coarse.time() + clocks.GRAIN

    async def wait(done: asyncio.Event, seconds: float) -> bool:
        coarse.call_at(due, done.set)
        async with asyncio.timeout(seconds):
            return await done.wait()

    with pytest.raises(TimeoutError):
        asyncio.run(wait(asyncio.Event(), 0))
    assert asyncio.run(wait(asyncio.Event(), 10))

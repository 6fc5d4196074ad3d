"""Start, sharing and stop of engines, with fake engines."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_local.engine import Settings
from swink_provider_local.pool import EnginePool, limits
from swink_testing.clock import ManualClock

A, B, C = (Settings(Path(f"{name}.gguf"), 512) for name in "abc")
SIZES = {A: 3, B: 4, C: 5}
IDLE = 60.0


class FakeEngine:
    def __init__(self, settings: Settings, log: list[str]) -> None:
        self.settings = settings
        self.alive = True
        self.stopped = threading.Event()
        self._log = log

    def stop(self) -> None:
        self.alive = False
        self._log.append(f"stop {self.settings.path.stem}")
        self.stopped.set()


class Bench:
    """A pool whose engines are fakes. `broken` starts fail; `gate` holds starts back."""

    def __init__(self, limit: int | None = 2, memory: int | None = None) -> None:
        self.log: list[str] = []
        self.broken = 0
        self.gate = threading.Event()
        self.gate.set()
        self.clock = ManualClock()
        self.pool = EnginePool(
            limit, IDLE, memory, clock=self.clock, start=self._start, measure=SIZES.__getitem__
        )

    def _start(self, settings: Settings) -> Any:
        self.gate.wait(10)
        if self.broken:
            self.broken -= 1
            raise ProviderFailure(Failure("connect", kind=Kind.INTERNAL, code="engine"))
        self.log.append(f"start {settings.path.stem}")
        return FakeEngine(settings, self.log)

    async def use(self, settings: Settings) -> FakeEngine:
        async with self.pool.lease(settings) as engine:
            found: Any = engine
            return found


async def test_one_engine_serves_one_call_after_another() -> None:
    bench = Bench()
    assert await bench.use(A) is await bench.use(A)
    assert bench.log == ["start a"]


async def test_calls_at_the_same_time_wait_for_one_start() -> None:
    bench = Bench()
    bench.gate.clear()
    calls = [asyncio.create_task(bench.use(A)) for _ in range(5)]
    await asyncio.sleep(0)
    bench.gate.set()
    assert len({id(engine) for engine in await asyncio.gather(*calls)}) == 1
    assert bench.log == ["start a"]


async def test_a_call_that_gives_up_leaves_the_start_to_the_others() -> None:
    bench = Bench()
    bench.gate.clear()
    first, second = (asyncio.create_task(bench.use(A)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    bench.gate.set()
    assert (await second).alive
    assert bench.log == ["start a"]


async def test_a_start_that_failed_is_tried_again_by_the_next_call() -> None:
    bench = Bench()
    bench.broken = 1
    with pytest.raises(ProviderFailure):
        await bench.use(A)
    assert (await bench.use(A)).alive


async def test_an_engine_that_died_is_replaced_by_the_next_call() -> None:
    bench = Bench()
    dead = await bench.use(A)
    dead.alive = False
    assert await bench.use(A) is not dead
    assert bench.log == ["start a", "stop a", "start a"]


async def test_other_settings_of_the_same_file_are_another_engine() -> None:
    bench = Bench()
    assert await bench.use(A) is not await bench.use(Settings(A.path, 1024))


async def test_the_engine_used_longest_ago_makes_room_before_the_new_one_starts() -> None:
    bench = Bench(limit=2)
    for settings in (A, B, A, C):
        await bench.use(settings)
    assert bench.log == ["start a", "start b", "stop b", "start c"]
    assert {engine.settings for engine in bench.pool.running()} == {A, C}


async def test_an_engine_at_work_does_not_make_room() -> None:
    bench = Bench(limit=1)
    async with bench.pool.lease(A):
        with pytest.raises(ProviderFailure) as caught:
            await bench.use(B)
    assert (caught.value.failure.kind, caught.value.failure.code) == (Kind.OVERLOADED, "engines")
    assert (await bench.use(B)).alive
    assert bench.log == ["start a", "stop a", "start b"]


# (the limit, who is asked in turn, what happens)
ROOM: list[tuple[int, tuple[Settings, ...], str]] = [
    (12, (A, B, C), "start a, start b, start c"),
    (11, (A, B, C), "start a, start b, stop a, start c"),
    (8, (A, B, C), "start a, start b, stop a, stop b, start c"),
    (8, (B, A, B, C, A), "start b, start a, stop a, stop b, start c, start a"),
    (5, (A, A, C, B), "start a, stop a, start c, stop c, start b"),
]


@pytest.mark.parametrize(("memory", "asked", "log"), ROOM)
async def test_as_many_engines_run_as_there_is_memory_for(
    memory: int, asked: tuple[Settings, ...], log: str
) -> None:
    bench = Bench(None, memory)
    for settings in asked:
        await bench.use(settings)
    assert ", ".join(bench.log) == log
    assert sum(SIZES[engine.settings] for engine in bench.pool.running()) <= memory


async def test_memory_that_others_work_in_is_waited_for() -> None:
    bench = Bench(None, 7)
    await bench.use(A)
    async with bench.pool.lease(B):
        with pytest.raises(ProviderFailure) as caught:
            await bench.use(C)
        assert (caught.value.failure.kind, caught.value.failure.code) == (
            Kind.OVERLOADED, "engines",
        )  # fmt: skip
        assert {engine.settings for engine in bench.pool.running()} == {A, B}
    assert (await bench.use(C)).alive


async def test_a_model_too_large_for_the_limit_of_memory_is_refused_for_good() -> None:
    bench = Bench(None, 4)
    await bench.use(A)
    with pytest.raises(ProviderFailure) as caught:
        await bench.use(C)
    failure = caught.value.failure
    assert (failure.kind, failure.code) == (Kind.UNSUPPORTED, "memory")
    assert "SWINK_LOCAL_MEMORY" in (failure.resolution or "")
    assert bench.log == ["start a"]


async def test_an_idle_engine_stops_after_its_time_and_not_before() -> None:
    bench = Bench()
    engine = await bench.use(A)
    await bench.clock.advance(IDLE - 1)
    assert engine.alive
    await bench.clock.advance(1)
    assert await asyncio.to_thread(engine.stopped.wait, 10)
    assert bench.pool.running() == []


async def test_every_use_begins_the_idle_time_anew() -> None:
    bench = Bench()
    engine = await bench.use(A)
    await bench.clock.advance(IDLE - 1)
    await bench.use(A)
    await bench.clock.advance(IDLE - 1)
    assert engine.alive


async def test_an_engine_in_use_is_never_idle() -> None:
    bench = Bench()
    await bench.use(A)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(bench.pool.lease(A))
        await bench.use(A)
        await bench.clock.advance(10 * IDLE)
        assert [engine.settings for engine in bench.pool.running()] == [A]


async def test_closing_stops_all() -> None:
    bench = Bench()
    for settings in (A, B):
        await bench.use(settings)
    await asyncio.to_thread(bench.pool.close)
    assert bench.log == ["start a", "start b", "stop a", "stop b"]


async def test_closing_does_not_wait_for_a_start_and_still_stops_what_it_starts() -> None:
    bench = Bench()
    bench.gate.clear()
    call = asyncio.create_task(bench.use(A))
    await asyncio.sleep(0)
    bench.pool.close()
    assert bench.log == []
    bench.gate.set()
    engine = await call
    assert await asyncio.to_thread(engine.stopped.wait, 10)


LIMITS = [
    ("nothing said", {}, (2, 300, None)),
    ("both said", {"SWINK_LOCAL_ENGINES": "1", "SWINK_LOCAL_IDLE": "0"}, (1, 0, None)),
    ("memory alone", {"SWINK_LOCAL_MEMORY": "6000"}, (None, 300, 6000 * 1024 * 1024)),
    (
        "memory and number",
        {"SWINK_LOCAL_MEMORY": "1", "SWINK_LOCAL_ENGINES": "3"},
        (3, 300, 1024 * 1024),
    ),
]


@pytest.mark.parametrize(
    ("environ", "expected"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS]
)
def test_the_environment_sets_the_limits(environ: dict[str, str], expected: Any) -> None:
    assert limits(environ) == expected


def test_engines_outlive_an_event_loop() -> None:
    bench = Bench()
    first = asyncio.run(bench.use(A))
    assert asyncio.run(bench.use(A)) is first

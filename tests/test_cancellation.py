"""Two hundred streams at a time before a hostile server, left at random: nothing is left behind."""

import asyncio
import gc
import logging
import os
import random
import warnings
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
from fakes import broken_rules

import swink_core as swink
from swink_test_helpers.fault_matrix import FaultSubject, subjects
from swink_testing.calls import client_with
from swink_testing.chaos import Answer, Broken, ChaosServer, Cut, Drip, Fault, Instead, Stall

STREAMS = 200
LONGEST_SECONDS = 0.1
"""The longest that a stream is read before it is left."""


class ByCall:
    """Keeps the events of each call apart."""

    def __init__(self) -> None:
        self.events: dict[str, list[swink.AssistantMessageEvent]] = defaultdict(list)

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        self.events[call.id].append(event)


async def read(stream: swink.EventStream) -> None:
    async for _ in stream:
        pass


async def by_cancelling_the_task(stream: swink.EventStream, after: float) -> None:
    task = asyncio.ensure_future(read(stream))
    await asyncio.sleep(after)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def by_closing_from_another_task(stream: swink.EventStream, after: float) -> None:
    task = asyncio.ensure_future(read(stream))
    await asyncio.sleep(after)
    await stream.aclose()
    await task


async def by_a_timeout_around_it(stream: swink.EventStream, after: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(after), stream:
            await read(stream)


async def by_a_task_group_that_fails(stream: swink.EventStream, after: float) -> None:
    async def fails() -> None:
        await asyncio.sleep(after)
        raise ZeroDivisionError

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            group.create_task(read(stream))


async def by_break_inside_async_with(stream: swink.EventStream, after: float) -> None:
    until = asyncio.get_running_loop().time() + after
    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_SECONDS), stream:
            async for _ in stream:
                if asyncio.get_running_loop().time() > until:
                    break


async def by_break_and_forgetting_it(stream: swink.EventStream, after: float) -> None:
    async for event in stream:
        if isinstance(event, swink.TextDelta | swink.ThinkingDelta | swink.ToolCallDelta):
            break


async def by_cancelling_the_result(stream: swink.EventStream, after: float) -> None:
    with suppress(TimeoutError, swink.StreamError):
        async with asyncio.timeout(after), aclosing(stream):
            await stream.result()


WAYS: list[Callable[[swink.EventStream, float], Awaitable[None]]] = [
    by_cancelling_the_task,
    by_closing_from_another_task,
    by_a_timeout_around_it,
    by_a_task_group_that_fails,
    by_break_inside_async_with,
    by_break_and_forgetting_it,
    by_cancelling_the_result,
]


def hostility(rng: random.Random, answer: Answer) -> Fault:
    size = len(answer.body)
    faults: list[Fault] = [
        Fault(),
        Drip(rng.randint(1, 200), 0.001),
        Cut(rng.randrange(size)),
        Cut(rng.randrange(size), reset=True),
        Cut(),
        Instead(503, headers={"Retry-After": "0.01"}),
    ]
    stalls: list[Fault] = [Stall(), Stall(0), Stall(rng.randrange(size))]
    if answer.framing is not None:
        faults.append(Broken((0, 1)))
        stalls.append(Drip(every=0.001, comments=True))
    return rng.choice(faults + stalls)


def descriptors() -> set[str]:
    return set(os.listdir("/proc/self/fd"))


def left(tasks: set[asyncio.Task[Any]], files: set[str]) -> bool:
    """Tell whether nothing is there that was not before."""
    return asyncio.all_tasks() == tasks and len(descriptors()) <= len(files)


async def leave_one(
    client: swink.Client, chaos: ChaosServer, number: int, rng: random.Random, watch: Any
) -> None:
    subject: FaultSubject = rng.choice(subjects())
    answer = subject.answer()
    fault = hostility(rng, answer)
    way = rng.choice(WAYS)
    endless = isinstance(fault, Stall) or getattr(fault, "comments", False)
    if endless and way is by_break_and_forgetting_it:
        way = by_cancelling_the_task  # it would wait for a first word that does not come
    url = chaos.add(f"case{number}", answer, fault)
    stream = client.stream(subject.name, "Hello", base_url=url)
    watch.append(stream.call.id)
    await way(stream, rng.uniform(0.0, LONGEST_SECONDS))
    if way is not by_break_and_forgetting_it:
        for exchange in chaos.exchanges_of(f"case{number}"):
            assert await chaos.left(exchange)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted in /proc")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("transport")
async def test_streams_left_at_random_leave_no_task_and_no_descriptor(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "swink_core")
    rng = random.Random(seed)
    observer = ByCall()
    started: list[str] = []
    policy = swink.RetryPolicy(base=0.005)
    async with client_with(plugins=[observer], api_key="test-key", retry=policy) as client:
        await _warm_up()
        before_tasks, before = asyncio.all_tasks(), descriptors()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # some are forgotten on purpose
            async with ChaosServer() as chaos:
                calls = (leave_one(client, chaos, n, rng, started) for n in range(STREAMS))
                await asyncio.gather(*calls)
                gc.collect()
                for exchange in chaos.exchanges:
                    assert await chaos.left(exchange)
        await client.aclose()
        gc.collect()
        async with asyncio.timeout(10):  # what was closed goes a little later
            while not left(before_tasks, before):  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(0.001)
    for call in started:
        assert broken_rules(observer.events[call]) == []


async def _warm_up() -> None:
    """Has everything imported that stays open, such as the resolver's threads."""
    async with ChaosServer() as chaos, client_with(api_key="test-key") as client:
        for number, subject in enumerate(subjects()):
            url = chaos.add(f"warm{number}", subject.answer(), Fault())
            async with client.stream(subject.name, "Hello", base_url=url) as stream:
                await read(stream)

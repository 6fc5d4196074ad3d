"""A slow observer behind a queue: it delays nothing, and missed events are counted."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from typing import Any

import pytest

import swink_core as swink
from swink_observers.background import Background
from swink_testing.clock import ManualClock
from swink_testing.conformance import run_checks
from swink_testing.observers import OBSERVER_CHECKS, ObserverConformance, PluginSubject

FAST = {"script": {"reply": "one two three four five six", "delta": 1}}


class Slow:
    """Stands still at a kind of event until it is let go."""

    def __init__(self, at: type[swink.AssistantMessageEvent] = swink.Start) -> None:
        self.seen: list[tuple[str, str]] = []
        self.free = threading.Event()
        self.at = at
        self.closed = False

    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, self.at):
            self.free.wait(60)
        self.seen.append((event.type, str(call.attempt.model)))

    async def aclose(self) -> None:
        self.closed = True


async def call_with(*plugins: Any, models: Any = "echo/echo") -> list[tuple[str, str]]:
    events = []
    client = swink.Client(plugins=plugins, retry=swink.RetryPolicy(base=0.0))
    async with client, client.stream(models, "Hi", settings=FAST) as stream:
        async for event in stream:
            events.append((event.type, str(stream.call.attempt.model)))
    return events


async def test_nobody_waits_and_nothing_is_lost_where_there_is_room() -> None:
    slow = Slow()
    observer = Background(slow)
    events = await call_with(observer, models=["echo/fail-auth", "echo/echo"])
    assert slow.seen == []  # the whole call is over
    slow.free.set()
    await observer.aclose()
    assert slow.seen == events
    assert observer.dropped == 0
    assert slow.closed


class Times:
    """Notes the times of an attempt at each event, perhaps long after it."""

    def __init__(self, wait: bool = False) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.free = threading.Event()
        self.wait = wait

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if self.wait:
            self.free.wait(60)
        attempt = call.attempt
        times = (attempt.started_at, attempt.first_event_at, attempt.read_at, attempt.ended_at)
        self.seen.append((event.type, attempt.number, *times, call.ended_at))


async def test_times_are_those_of_the_event_however_long_it_waits() -> None:
    prompt, late = Times(), Times(wait=True)
    clock, observer = ManualClock(100.0, jump=True), Background(late)
    chain = ["echo/fail-overloaded-after-2", "echo/slow"]
    once = {swink.StreamErrorKind.OVERLOADED: 0}
    policy = swink.RetryPolicy(retries=once, restart_after_output=True)
    client = swink.Client(plugins=[prompt, observer], retry=policy, clock=clock)
    async with client, client.stream(chain, "one two three") as stream:
        async for _ in stream:
            await clock.advance(1.0)
        assert late.seen == []  # the whole call is over
        late.free.set()
        await observer.aclose()
    assert late.seen == prompt.seen

    first = [row for row in prompt.seen if row[1] == 1]
    second = [row for row in prompt.seen if row[1] == 2]
    began = first[0][2]
    assert first[0] == ("start", 1, began, None, began, None, None)  # echo makes its own Start
    assert first[-1][0] == "retry"
    assert first[-1][5] is not None  # it ended, though the call did not
    assert first[-1][6] is None
    began = second[0][2]
    assert second[0] == ("start", 2, began, None, began, None, None)  # nothing of the first's
    assert began >= first[-1][5]
    kind, _, started, content, read, ended, all_ended = second[-1]
    assert kind == "done"
    assert started < content <= read <= ended <= all_ended
    reads = [row[4] for row in second if row[0] == "text_delta"]
    assert reads == sorted(set(reads))  # each delta of this provider comes by itself


class TimesItsQueue(Times):
    """Reads the clock when an event leaves the queue."""

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        self.seen = [(event.type, call.clock.time() - call.started_at)]


@pytest.mark.parametrize(
    ("make", "faults"), [(Times, []), (TimesItsQueue, ["times_are_the_attempts"])]
)
def test_the_kit_fails_an_observer_that_measures_its_queue(make: Any, faults: list[str]) -> None:
    checks = [check for check in OBSERVER_CHECKS if check.name == "times_are_the_attempts"]
    results = run_checks(checks, PluginSubject(lambda: Background(make())))
    assert [result.name for result in results if result.is_fault] == faults


class Other(swink.AssistantMessageEvent, tag="other"):
    """An event of a library above the core."""


@pytest.mark.parametrize("asked", [True, False])
async def test_what_is_told_beside_a_call_is_passed_on_where_that_is_asked_for(asked: bool) -> None:
    class Takes(Slow):
        other_events = asked

    slow = Takes()
    slow.free.set()
    async with Background(slow) as observer, swink.Client(plugins=[observer]) as client:
        stream = client.stream("echo/echo", "Hi")
        stream.observe(Other())
        await stream.result()
        stream.observe(Other())
    seen = [name for name, _ in slow.seen]
    assert (seen[0], seen[-1]) == (("other", "other") if asked else ("start", "done"))
    assert observer._calls == {}


async def test_an_event_finds_the_call_as_it_was() -> None:
    found: list[tuple[str, Any]] = []

    class Looks:
        def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
            found.append((event.type, (call.attempt.number, call.usage is not None)))

    async with Background(Looks()) as observer:
        await call_with(observer, models=["echo/flaky"])
    names = [name for name, _ in found]
    assert [number for _, (number, _) in found] == [1] * (names.index("retry") + 1) + [2] * (
        len(names) - names.index("retry") - 1
    )
    assert found[-2] == ("text_end", (2, False))
    assert found[-1] == ("done", (2, True))


class Charges:
    """Notes the charge of an attempt at each event that ends one."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, swink.Charge]] = []

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, swink.Retry | swink.Done):
            self.seen.append((event.type, call.attempt.charge))


async def test_the_charge_of_an_attempt_is_the_one_that_was_taken() -> None:
    prompt, late = Charges(), Charges()
    async with Background(late) as observer:
        await call_with(prompt, observer, models=["echo/flaky"])
    assert late.seen == prompt.seen
    assert [(name, charge.estimated) for name, charge in late.seen] == [
        ("retry", False),
        ("done", False),
    ]


class Misnamed:
    def on_event(self, e: swink.AssistantMessageEvent, call: swink.Call) -> None: ...


class Named:
    def on_event(self, event: swink.AssistantMessageEvent) -> None: ...


@pytest.mark.parametrize(("observer", "said"), [(Misnamed(), "takes e$"), (Named, "takes self$")])
def test_an_observer_that_could_see_nothing_is_refused(observer: Any, said: str) -> None:
    with pytest.raises(swink.PluginError) as refused:
        Background(observer)
    assert re.search(said, refused.value.message)
    assert "event and call" in (refused.value.resolution or "")


async def test_a_full_queue_drops_deltas_first_and_counts_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = Slow()
    observer = Background(slow, size=4)
    events = await call_with(observer)
    slow.free.set()
    with caplog.at_level(logging.WARNING, "swink_observers"):
        await observer.aclose()
    assert observer.dropped > 0
    assert len(slow.seen) + observer.dropped == len(events)
    kept = [name for name, _ in slow.seen]
    assert [name for name in kept if name != "text_delta"] == [
        name for name, _ in events if name != "text_delta"
    ]
    assert f"too slow for {observer.dropped} events" in caplog.text


async def test_closing_waits_for_a_limited_time_and_says_what_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    slow = Slow()
    observer = Background(slow, flush_seconds=0.01)
    events = await call_with(observer)
    await observer.aclose()
    assert "did not get through" in caplog.text
    assert observer.dropped >= len(events) - 1
    slow.free.set()


async def test_who_raises_misses_that_call_alone(caplog: pytest.LogCaptureFixture) -> None:
    seen = []

    class Broken:
        name = "broken"

        def on_event(self, event: swink.AssistantMessageEvent) -> None:
            seen.append(event.type)
            if isinstance(event, swink.TextStart):
                raise SystemExit

    async with Background(Broken()) as observer:
        await call_with(observer)
        await call_with(observer)
    assert seen == ["start", "text_start"] * 2
    assert caplog.text.count("observer broken raised") == 2


async def test_closed_it_takes_no_more(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    observer = Background(slow)
    await observer.aclose()
    events = await call_with(observer)
    await asyncio.sleep(0)
    assert (slow.seen, observer.dropped) == ([], len(events))


class TestBackground(ObserverConformance):
    class Quick:
        def on_event(self, event: swink.AssistantMessageEvent) -> None:
            """Nothing that takes time."""

    @staticmethod
    def observer() -> Background:
        return Background(TestBackground.Quick())

"""The kit for observers and wrappers: a fault fails its own check and no other."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator
from contextlib import aclosing
from queue import SimpleQueue
from typing import Any

import pytest

import swink_core as swink
from swink_testing.conformance import Outcome, consistency_line, run_checks
from swink_testing.observers import (
    OBSERVER_CHECKS,
    WRAPPER_CHECKS,
    ObserverConformance,
    PluginSubject,
    WrapperConformance,
)
from swink_testing.observing import CALLS

WRITTEN: deque[str] = deque(maxlen=100)

# -- observers -----------------------------------------------------------------------------------


class Tally:
    """An observer without a fault."""

    def __init__(self) -> None:
        self.tokens = 0

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, swink.Done | swink.Error) and call.usage:
            self.tokens += call.usage.output or 0


class Misspelt:
    @swink.hookimpl
    def on_events(self, event: swink.AssistantMessageEvent) -> None:
        """Meant to be `on_event`."""


class Unmarked:
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        """Lacks `@hookimpl`."""


class OtherLevel:
    api_level = 99


class Coroutine:
    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> Any:
        if False:
            yield event  # a generator function's body does not run when it is called


class ExpectsUsage:
    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        if isinstance(event, swink.Done):
            self.last = event.usage.output  # type: ignore[union-attr]  # that is the fault


class ExpectsOneCall:
    """Mixes up calls that run at the same time."""

    def __init__(self) -> None:
        self.blocks: list[int] = []

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        if isinstance(event, swink.Start):
            self.blocks.clear()
        elif isinstance(event, swink.TextStart):
            self.blocks.append(event.content_index)
        elif isinstance(event, swink.TextEnd):
            self.blocks.remove(event.content_index)


class Sleeps:
    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        if isinstance(event, swink.TextDelta):
            time.sleep(0.002)


class TimesItsQueue:
    """Reads the clock when it gets an event, which may have waited in a queue."""

    def __init__(self) -> None:
        self.first: float | None = None

    @swink.hookimpl
    def on_event(self, event: Any, call: Any) -> None:
        if isinstance(event, swink.TextDelta) and self.first is None:
            self.first = call.clock.time() - call.started_at


class TimesTheAttempt:
    """The same, with the times of the attempt."""

    def __init__(self) -> None:
        self.first: list[float] = []

    @swink.hookimpl
    def on_event(self, event: Any, call: Any) -> None:
        attempt = call.attempt
        if isinstance(event, swink.Done | swink.Error) and attempt.first_event_at is not None:
            self.first[:] = [attempt.first_event_at - attempt.started_at]


class Shouts:
    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        if isinstance(event, swink.TextDelta):
            event.delta = event.delta.upper()


class Hoards:
    def __init__(self) -> None:
        self.events: list[swink.AssistantMessageEvent] = []

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        self.events.append(event)


class KeepsCalls:
    def __init__(self) -> None:
        self.calls: dict[str, swink.Call] = {}

    @swink.hookimpl
    def on_event(self, call: swink.Call) -> None:
        self.calls[call.id] = call


class KeepsCallsOfOthers(KeepsCalls):
    """Lets go of a call at its end, and takes it up again with what comes after."""

    other_events = True

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        self.calls[call.id] = call
        if isinstance(event, swink.Done | swink.Error):
            del self.calls[call.id]


class Copies:
    """Slow where texts are long."""

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        text = getattr(event, "delta", "")
        for end in range(0, len(text), 64):
            text[:end].upper()


class NeedsAProvidersName:
    """Raises in real calls, and in no simulated one."""

    @swink.hookimpl
    def on_event(self, call: swink.Call) -> None:
        assert call.model.provider != "acme"


class RemembersCalls:
    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, swink.Done):
            self.calls.append([call.id])


class RemembersMostCalls(RemembersCalls):
    """Keeps an object of three calls in five."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, swink.Done):
            self.seen += 1
            if self.seen % 5 < 3:
                self.calls.append([call.id])


class ForgetsOnlyAnswers:
    """Keeps a number of each call, which it lets go only when the call succeeds."""

    def __init__(self) -> None:
        self.seen: dict[str, int] = {}

    def is_end(self, event: swink.AssistantMessageEvent) -> bool:
        return isinstance(event, swink.Done)

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        self.seen[call.id] = self.seen.get(call.id, 0) + 1
        if self.is_end(event):
            del self.seen[call.id]


class ForgetsNoAbortedCalls(ForgetsOnlyAnswers):
    def is_end(self, event: swink.AssistantMessageEvent) -> bool:
        is_error = isinstance(event, swink.Error)
        is_aborted = is_error and event.stop_reason is swink.StopReason.ABORTED
        return isinstance(event, swink.Done) or (is_error and not is_aborted)


class ForgetsOnlyLastAttempts:
    """Keeps the number of each attempt that is retried."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int], bool] = {}

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, swink.Start):
            self.seen[call.id, call.attempt.number] = True
        elif isinstance(event, swink.Done | swink.Error):
            self.seen.pop((call.id, call.attempt.number), None)


class KeepsFailedCalls(KeepsCalls):
    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        self.calls["last"] = call
        if isinstance(event, swink.Done):
            self.calls.clear()


class KeepsTheLastThousand:
    """Keeps the ids of the last thousand calls."""

    def __init__(self) -> None:
        self.last: deque[str] = deque(maxlen=1000)

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, swink.Done | swink.Error):
            self.last.append(call.id)


class Samples:
    """Keeps forty samples, which it takes late."""

    def __init__(self) -> None:
        self.seen = 0
        self.samples: list[list[str]] = []

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if isinstance(event, swink.Done):
            self.seen += 1
            if self.seen > 2 * CALLS and len(self.samples) < 40:
                self.samples.append([call.id])


class LeavesATask(Tally):
    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[Any] = []

    async def aclose(self) -> None:
        self.tasks.append(asyncio.create_task(asyncio.sleep(60)))


class WritesAnswers(Tally):
    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        if isinstance(event, swink.TextDelta):
            WRITTEN.append(event.delta)


class WritesThinking(Tally):
    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        if (text := self.text_of(event, call)) is not None:
            WRITTEN.append(text)

    def text_of(self, event: swink.AssistantMessageEvent, call: swink.Call) -> str | None:
        return event.delta if isinstance(event, swink.ThinkingDelta) else None


class WritesSignatures(WritesThinking):
    def text_of(self, event: swink.AssistantMessageEvent, call: swink.Call) -> str | None:
        return event.signature if isinstance(event, swink.ThinkingEnd) else None


class WritesArguments(WritesThinking):
    def text_of(self, event: swink.AssistantMessageEvent, call: swink.Call) -> str | None:
        return event.delta if isinstance(event, swink.ToolCallDelta) else None


class WritesExtensions(WritesThinking):
    def text_of(self, event: swink.AssistantMessageEvent, call: swink.Call) -> str | None:
        return str(event.data) if isinstance(event, swink.Extension) else None


class WritesSystemPrompts(WritesThinking):
    def text_of(self, event: swink.AssistantMessageEvent, call: swink.Call) -> str | None:
        return call.context.system_prompt


class WritesTools(WritesThinking):
    def text_of(self, event: swink.AssistantMessageEvent, call: swink.Call) -> str | None:
        return str(call.context.tools)


class WritesRequests(WritesThinking):
    def text_of(self, event: swink.AssistantMessageEvent, call: swink.Call) -> str | None:
        return str(call.attempt.request and call.attempt.request.body)


class OpensAFile:
    """Opens a file with the first event, as an observer does that writes a log."""

    def __init__(self) -> None:
        self.is_open = False

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        self.is_open = True

    async def aclose(self) -> None:
        self.is_open = False


class Greets(Tally):
    def __init__(self) -> None:
        super().__init__()
        print("Hello!")


def subject_of(make: Callable[[], Any]) -> PluginSubject:
    WRITTEN.clear()
    return PluginSubject(make, installed=make, written=lambda plugin: "".join(WRITTEN))


BROKEN_OBSERVERS = [
    (Misspelt, "fits_the_hooks"),
    (Unmarked, "fits_the_hooks"),
    (OtherLevel, "fits_the_hooks"),
    (Coroutine, "fits_the_hooks"),
    (ExpectsUsage, "disturbs_no_call"),
    (ExpectsOneCall, "disturbs_no_call"),
    (Sleeps, "never_blocks"),
    (TimesItsQueue, "times_are_the_attempts"),
    (Shouts, "disturbs_no_call"),
    (Hoards, "keeps_nothing"),
    (KeepsCalls, "keeps_nothing"),
    (KeepsCallsOfOthers, "keeps_nothing"),
    (Copies, "never_blocks"),
    (NeedsAProvidersName, "disturbs_no_call"),
    (RemembersCalls, "keeps_nothing"),
    (RemembersMostCalls, "keeps_nothing"),
    (ForgetsOnlyAnswers, "keeps_nothing"),
    (ForgetsNoAbortedCalls, "keeps_nothing"),
    (ForgetsOnlyLastAttempts, "keeps_nothing"),
    (KeepsFailedCalls, "keeps_nothing"),
    (LeavesATask, "closes_in_time"),
    (WritesAnswers, "keeps_secrets"),
    (WritesThinking, "keeps_secrets"),
    (WritesSignatures, "keeps_secrets"),
    (WritesArguments, "keeps_secrets"),
    (WritesExtensions, "keeps_secrets"),
    (WritesSystemPrompts, "keeps_secrets"),
    (WritesTools, "keeps_secrets"),
    (WritesRequests, "keeps_secrets"),
    (Greets, "silent_unless_configured"),
]

LONG = {make for make, checks in BROKEN_OBSERVERS if checks in ("keeps_nothing", "never_blocks")}
LONG -= {Hoards, KeepsFailedCalls}
"""Observers for whose fault the kit makes very many calls."""


@pytest.mark.parametrize(
    ("make", "checks"),
    [
        pytest.param(make, checks, marks=[pytest.mark.heavy] if make in LONG else [])
        for make, checks in BROKEN_OBSERVERS
    ],
)
def test_a_fault_of_an_observer_fails_its_own_check_and_no_other(
    make: Callable[[], Any], checks: str
) -> None:
    results = run_checks(OBSERVER_CHECKS, subject_of(make))

    assert [result.name for result in results if result.is_fault] == checks.split()


@pytest.mark.parametrize("make", [Samples, KeepsTheLastThousand])
def test_what_is_bounded_may_be_filled_late(make: Callable[[], Any]) -> None:
    results = run_checks(OBSERVER_CHECKS, subject_of(make))

    assert [result.name for result in results if result.is_fault] == []


class ReadsItsQueueLater:
    """Has a thread that still processes its queue when `aclose` has ended."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[Any] = SimpleQueue()
        self.thread = threading.Thread(target=self.work)

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent) -> None:
        if self.thread.ident is None:
            self.thread.start()
        self.queue.put(event)

    def work(self) -> None:
        time.sleep(0.3)
        while self.queue.get() is not None:
            pass

    async def aclose(self) -> None:
        self.queue.put(None)


def test_a_queue_that_is_processed_after_the_observer_was_closed_is_not_kept() -> None:
    checks = [check for check in OBSERVER_CHECKS if check.name == "keeps_nothing"]

    [found] = run_checks(checks, subject_of(ReadsItsQueueLater))

    assert found.outcome is Outcome.PASSED, found.detail


def test_an_observer_may_measure_attempts() -> None:
    results = run_checks(OBSERVER_CHECKS, subject_of(TimesTheAttempt))

    assert [result.name for result in results if result.is_fault] == []


def test_what_a_check_made_is_closed_after_it() -> None:
    made: list[OpensAFile] = []

    def make() -> OpensAFile:
        made.append(OpensAFile())
        return made[-1]

    results = run_checks(OBSERVER_CHECKS, PluginSubject(make))
    assert not [result for result in results if result.is_fault]
    assert len(made) > len(OBSERVER_CHECKS)
    assert not [observer for observer in made if observer.is_open]


def test_every_observer_check_has_a_fault_that_fails_it() -> None:
    assert {check for _, checks in BROKEN_OBSERVERS for check in checks.split()} == {
        check.name for check in OBSERVER_CHECKS
    }


# -- wrappers ------------------------------------------------------------------------------------


class Passes:
    """A wrapper without a fault."""

    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Generator[None, Any, Any]:
        return {**(yield)}

    @swink.hookimpl(wrapper=True)
    def stream(self) -> Generator[None, Any, Any]:
        return self._passed((yield))

    async def _passed(self, inner: Any) -> AsyncGenerator[swink.AssistantMessageEvent]:
        async with aclosing(aiter(inner)) as events:
            async for event in events:
                yield event


class ClaimsEveryCall:
    @swink.hookimpl(tryfirst=True)
    async def stream(self) -> AsyncIterator[swink.AssistantMessageEvent]:
        yield swink.Start()


class LosesEnds(Passes):
    async def _passed(self, inner: Any) -> AsyncGenerator[swink.AssistantMessageEvent]:
        async with aclosing(aiter(inner)) as events:
            async for event in events:
                if not isinstance(event, swink.TextEnd):
                    yield event


class DropsTheInner(Passes):
    async def _passed(self, inner: Any) -> AsyncGenerator[swink.AssistantMessageEvent]:
        async for event in inner:
            yield event


class ChangesTheConversation:
    @swink.hookimpl(wrapper=True)
    def convert_messages(self, context: swink.Context) -> Generator[None, Any, Any]:
        del context.messages[1:]
        return (yield)


class ReturnsNothing:
    @swink.hookimpl(wrapper=True)
    def convert_messages(self) -> Generator[None, Any, Any]:
        yield


class Remembers(Passes):
    """Says again what was answered; `of` says which calls are the same, `at` what it costs then."""

    def __init__(self) -> None:
        self.kept: dict[str, list[swink.AssistantMessageEvent]] = {}

    @swink.hookimpl(wrapper=True)
    def stream(
        self, model: swink.Model, context: swink.Context, options: swink.StreamOptions
    ) -> Generator[None, Any, Any]:
        events = yield
        return self._again(self.of(model, context, options), events)

    def of(self, *call: Any) -> str:
        return repr(call)

    def at(self, done: Any) -> Any:
        return swink.replace(done, usage=swink.Usage(0, 0), cost=swink.Cost(total=0.0))

    async def _again(self, asked: str, events: Any) -> AsyncIterator[swink.AssistantMessageEvent]:
        if asked in self.kept:
            for event in self.kept[asked]:
                yield event
            return
        seen = []
        async with aclosing(self._passed(events)) as passed:
            async for event in passed:
                seen.append(event)
                if isinstance(event, swink.Done):
                    self.kept[asked] = [*seen[:-1], self.at(event)]
                yield event


class ChargesTwice(Remembers):
    def at(self, done: Any) -> Any:
        return done


class ChargesDollarsTwice(Remembers):
    def at(self, done: Any) -> Any:
        return swink.replace(done, usage=None)


class ForgetsWhatWasAsked(Remembers):
    def of(self, model: Any, context: Any, options: Any) -> str:
        return repr((model, options))


class ForgetsBeginnings(Remembers):
    def of(self, model: Any, context: Any, options: Any) -> str:
        return repr((model, context.messages[-1:], context.system_prompt, options))


class ForgetsOptions(Remembers):
    def of(self, model: Any, context: Any, options: Any) -> str:
        return repr((model, context))


BROKEN_WRAPPERS = [
    (ClaimsEveryCall, "fits_the_hooks"),
    (LosesEnds, "order_is_kept"),
    (DropsTheInner, "leaving_reaches_the_provider"),
    (ChangesTheConversation, "conversations_stay"),
    (ReturnsNothing, "conversations_stay"),
    (ForgetsWhatWasAsked, "calls_are_told_apart"),
    (ForgetsBeginnings, "calls_are_told_apart"),
    (ForgetsOptions, "calls_are_told_apart"),
    (ChargesTwice, "repeats_cost_nothing"),
    (ChargesDollarsTwice, "repeats_cost_nothing"),
]


@pytest.mark.parametrize(("make", "check"), BROKEN_WRAPPERS)
def test_a_fault_of_a_wrapper_fails_its_own_check_and_no_other(
    make: Callable[[], Any], check: str
) -> None:
    results = run_checks(WRAPPER_CHECKS, PluginSubject(make))

    assert [result.name for result in results if result.is_fault] == [check]


def test_every_wrapper_check_has_a_fault_that_fails_it() -> None:
    assert {check for _, check in BROKEN_WRAPPERS} == {check.name for check in WRAPPER_CHECKS}


def test_checks_of_hooks_that_a_plugin_lacks_do_not_apply() -> None:
    outcomes = {r.name: r.outcome for r in run_checks(WRAPPER_CHECKS, PluginSubject(Tally))}

    assert outcomes == {
        "fits_the_hooks": Outcome.PASSED,
        "order_is_kept": Outcome.DOES_NOT_APPLY,
        "leaving_reaches_the_provider": Outcome.DOES_NOT_APPLY,
        "conversations_stay": Outcome.DOES_NOT_APPLY,
        "calls_are_told_apart": Outcome.DOES_NOT_APPLY,
        "repeats_cost_nothing": Outcome.DOES_NOT_APPLY,
    }


def test_a_plugin_without_a_hook_is_not_consistent() -> None:
    for checks in (OBSERVER_CHECKS, WRAPPER_CHECKS):
        results = run_checks(checks, PluginSubject(Unmarked))

        line = consistency_line(results)
        assert line.startswith("not consistent: fits_the_hooks")


# -- the classes ---------------------------------------------------------------------------------


class TestTally(ObserverConformance):
    observer = Tally


class TestPasses(WrapperConformance):
    wrapper = Passes


class TestRemembers(WrapperConformance):
    wrapper = Remembers

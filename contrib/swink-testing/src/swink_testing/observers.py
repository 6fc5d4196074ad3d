"""The small kit for other plugins than providers: observers, and wrappers of the other hooks.

    class TestTally(ObserverConformance):
        observer = Tally              # whatever makes one when it is called

An observer runs between the network and the caller, for every token of every call: it may not
block, raise, change events or keep them alive. A wrapper stands between a provider and its
callers: what passes through keeps its order, and leaving early reaches the provider.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import inspect
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from swink_core import Call, PluginError
from swink_core.plugins.attempt import Attempt
from swink_core.plugins.binding import Binding
from swink_core.streaming.driver import SAYING
from swink_core.streaming.observers import Observers
from swink_core.vocabulary import events as ev
from swink_testing.calls import new_call
from swink_testing.clock import ManualClock
from swink_testing.conformance import (
    Check,
    ConformanceSuite,
    fail,
    require,
)
from swink_testing.conformance.plugins.subject import CALLS, PluginSubject, answer
from swink_testing.observing import (
    check_closes_in_time,
    check_disturbs_no_call,
    check_keeps_secrets,
    check_leaks_nothing,
    check_never_freezes,
    check_silent_unless_configured,
    only_new_objects,
)
from swink_testing.wrapping import (
    check_calls_are_told_apart,
    check_conversations_stay,
    check_leaving_reaches_the_provider,
    check_order_is_kept,
    check_repeats_cost_nothing,
)

__all__ = [
    "OBSERVER_CHECKS",
    "WRAPPER_CHECKS",
    "ObserverConformance",
    "PluginSubject",
    "WrapperConformance",
    "new_call",
    "set_times",
]

DELTAS = 500
MOST_SECONDS = 0.25
"""The longest that an observer may take over a call of `DELTAS` deltas, half a millisecond each."""
ROUNDS = 3
"""A busy machine can make one round look slow, hardly all of them."""


class _Other(ev.AssistantMessageEvent, tag="other"):
    """An event that a library above the core makes, before a call or after its end."""


def _observe(binding: Binding, call: Call) -> Callable[[ev.AssistantMessageEvent], None]:
    """Return a function that passes one event of a call to the plugin, between others if any."""
    observers = [*Observers(call, [binding]).bound.values()]
    plugins = [impl.plugin for impl in binding.hook.on_event.get_hookimpls()]
    takes_others = any(getattr(plugin, "other_events", False) for plugin in plugins)
    before = [_Other()] if takes_others else []

    def show(event: ev.AssistantMessageEvent) -> None:
        shown = [*before, event]
        before.clear()
        if isinstance(event, ev.Done | ev.Error):
            call.add(event.usage, event.cost)
            shown += [_Other()] if takes_others else []
        for observer in observers:
            observer(shown)

    return show


# -- checks of observers -------------------------------------------------------------------------


def check_fits_the_hooks(subject: PluginSubject) -> None:
    """It has a hook, all hooks are spelt correctly, and it fits this plugin API level."""
    try:
        binding = subject.binding()
    except PluginError as error:
        fail(str(error))
    for impl in binding.hook.on_event.get_hookimpls():
        require(
            not (inspect.iscoroutinefunction(impl.function) or _is_generator(impl.function)),
            "on_event is a coroutine or generator function, whose body never runs",
        )


def check_never_raises(subject: PluginSubject) -> None:
    """It raises for no call: answers, retries, failures, aborted and concurrent calls."""
    binding = subject.observing()
    shows = {name: _observe(binding, new_call()) for name in CALLS}
    streams = {name: make() for name, make in CALLS.items()}
    while streams:  # an event of each call in turn
        for name in list(streams):
            event = next(streams[name], None)
            if event is None:
                del streams[name]
                continue
            try:
                shows[name](event)
            except Exception as error:
                fail(f"it raises {type(error).__name__} at {event.type} of {name}: {error}")


def check_never_blocks(subject: PluginSubject) -> None:
    """It handles an event quickly, because every other stream waits meanwhile."""
    binding = subject.observing()
    seconds = min(_seconds(_observe(binding, new_call())) for _ in range(ROUNDS))
    require(
        seconds < MOST_SECONDS,
        f"{DELTAS} deltas take it more than {MOST_SECONDS} s: hand slow work to a thread or task",
    )


def check_times_are_the_attempts(subject: PluginSubject) -> None:
    """It takes times from the call and its attempt, and not from the clock."""
    for make in CALLS.values():
        binding = subject.observing()
        call, clock = new_call(), _CountingClock()
        call.clock = clock
        show = _observe(binding, call)
        for seconds, event in enumerate(make(), 1):
            set_times(call, event, float(seconds))
            try:
                show(event)
            except Exception:  # which another check reports
                break
        plugins = [impl.plugin for impl in binding.hook.on_event.get_hookimpls()]
        _wait_for_queues(plugins)
        require(
            not clock.reads,
            f"it reads the call's clock {clock.reads} times while it is shown a call: an event may "
            "have waited in a queue. Use call.attempt.started_at, first_event_at, read_at and "
            "ended_at, and call.ended_at",
        )


class _CountingClock(ManualClock):
    """A clock that counts how often its time is read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def time(self) -> float:
        self.reads += 1
        return super().time()


def set_times(call: Call, event: ev.AssistantMessageEvent, now: float) -> None:
    """Set the times that the core sets before it shows an event; `now` is in seconds."""
    if isinstance(event, ev.Start):
        call.attempts += 1
        call.turn_to(Attempt(call.attempt.target, call.attempts))
        call.attempt.begin(now)
        if call.attempts == 1:
            call.started_at = now
        return
    attempt = call.attempt
    if isinstance(event, ev.Retry | ev.Done | ev.Error):
        attempt.end(now)
        call.ended_at = None if isinstance(event, ev.Retry) else now
        return
    attempt.hear(now)
    attempt.count_read()
    if attempt.first_event_at is None and type(event) in SAYING:
        attempt.show_content(now)


def _wait_for_queues(plugins: Sequence[Any]) -> None:
    """Wait until observers in a thread have seen what is queued, by closing them."""

    async def close() -> None:
        for plugin in plugins:
            if hasattr(plugin, "aclose"):
                await plugin.aclose()

    asyncio.run(close())


def check_changes_nothing(subject: PluginSubject) -> None:
    """It does not change events."""
    show = _observe(subject.observing(), new_call())
    for event in answer():
        before = copy.deepcopy(event)
        show(event)
        require(event == before, f"it changes {before!r:.200} into {event!r:.200}")


def check_keeps_nothing(subject: PluginSubject) -> None:
    """It keeps no reference to events, nor to a finished call: copy the values.

    Events in the observer's own queue may wait until it is closed.
    """
    with only_new_objects():
        binding, call = subject.observing(), new_call()
        show, watched = _observe(binding, call), []
        for event in answer():
            watched.append((event.type, weakref.ref(event)))
            show(event)
        del event
        ended = weakref.ref(call)
        del show, call
        asyncio.run(subject.aclose())
        gc.collect()
    kept = sorted({name for name, alive in watched if alive() is not None})
    require(not kept, f"it keeps events alive: {', '.join(kept)}")
    require(ended() is None, "it keeps the call alive after its terminal event")


def _seconds(show: Callable[[ev.AssistantMessageEvent], None]) -> float:
    began = time.perf_counter()
    for event in answer(DELTAS):
        show(event)
        if time.perf_counter() - began > MOST_SECONDS:
            break
    return time.perf_counter() - began


def _is_generator(function: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


# -- the classes to subclass ---------------------------------------------------------------------

OBSERVER_CHECKS: tuple[Check[PluginSubject], ...] = (
    Check(check_fits_the_hooks),
    Check(check_never_raises),
    Check(check_never_blocks),
    Check(check_times_are_the_attempts),
    Check(check_changes_nothing),
    Check(check_keeps_nothing),
    Check(check_never_freezes),
    Check(check_disturbs_no_call),
    Check(check_leaks_nothing),
    Check(check_closes_in_time),
    Check(check_keeps_secrets),
    Check(check_silent_unless_configured),
)

WRAPPER_CHECKS: tuple[Check[PluginSubject], ...] = (
    Check(check_fits_the_hooks),
    Check(check_order_is_kept),
    Check(check_leaving_reaches_the_provider),
    Check(check_conversations_stay),
    Check(check_calls_are_told_apart),
    Check(check_repeats_cost_nothing),
)


class _PluginConformance(ConformanceSuite):
    @classmethod
    def maker(cls) -> Callable[[], Any]:
        """Return the factory of the plugin."""
        raise NotImplementedError

    @classmethod
    def subject(cls) -> PluginSubject:
        """Return the plugin as the checks want it."""
        return PluginSubject(cls.maker())

    @classmethod
    def subject_name(cls) -> str:
        """Name the plugin in the summary."""
        return getattr(cls.maker(), "__name__", repr(cls.maker()))


class ObserverConformance(_PluginConformance):
    """The promises of every observer, as tests. Subclass it and set `observer` to its class.

    `installed` is what its entry point names, if it has one. Override `written` where it puts
    something down beside what it logs and prints.
    """

    observer: ClassVar[Callable[[], Any]]
    installed: ClassVar[Callable[[], Any] | None] = None

    @staticmethod
    def written(observer: Any) -> str:
        """Return, as text, all that an observer has written."""
        return str(observer)

    @classmethod
    def subject(cls) -> PluginSubject:
        """Return the observer as the checks want it."""
        return PluginSubject(cls.observer, cls.installed, cls.written)

    @classmethod
    def checks(cls) -> Sequence[Check[PluginSubject]]:
        """Return the checks to run."""
        return OBSERVER_CHECKS

    @classmethod
    def maker(cls) -> Callable[[], Any]:
        """Return the observer's class."""
        return cls.observer


class WrapperConformance(_PluginConformance):
    """The promises of every wrapper, as tests. Subclass it and set `wrapper` to its class."""

    wrapper: ClassVar[Callable[[], Any]]

    @classmethod
    def checks(cls) -> Sequence[Check[PluginSubject]]:
        """Return the checks to run."""
        return WRAPPER_CHECKS

    @classmethod
    def maker(cls) -> Callable[[], Any]:
        """Return the wrapper's class."""
        return cls.wrapper

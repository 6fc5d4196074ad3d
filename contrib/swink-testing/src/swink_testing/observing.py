"""The checks of observers, which use simulated events and real calls.

The real calls go through a client, with an HTTP client that answers from memory. These calls
succeed, are retried, fall back to the next model, are refused, truncated, abandoned or cancelled. A
second observer, which raises exceptions, is installed as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import functools
import gc
import inspect
import io
import logging
import os
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

from swink_core import (
    Call,
    Client,
    Context,
    PluginError,
    RetryPolicy,
    StreamErrorKind,
    Tool,
    UserMessage,
    hookimpl,
)
from swink_core.plugins.attempt import Attempt
from swink_core.plugins.binding import Binding
from swink_core.plugins.host import CLOSE_SECONDS
from swink_core.streaming.driver import SAYING
from swink_core.streaming.observers import Observers
from swink_core.vocabulary import events as ev
from swink_testing.acme import acme_answer, acme_host
from swink_testing.calls import new_call
from swink_testing.clock import ManualClock
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.plugins.subject import CALLS as SCRIPTS
from swink_testing.conformance.plugins.subject import PluginSubject, answer
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, PausingResponse
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, cpu_seconds

__all__ = [
    "PausingResponse",
    "check_closes_in_time",
    "check_disturbs_no_call",
    "check_fits_the_hooks",
    "check_keeps_nothing",
    "check_keeps_secrets",
    "check_never_blocks",
    "check_silent_unless_configured",
    "check_times_are_the_attempts",
    "only_new_objects",
    "set_times",
]

KEY, PROMPT = "canary-key-3f9a17", "canary-prompt-77c1"

_SYSTEM, _TOOL, _EXTRA = "canary-system-41d8", "canary-tool-9e06", "canary-extra-5a2f"

_SAID, _THOUGHT, _SIGNED = "canary-answer-0b52", "canary-thinking-c3b7", "canary-signature-86d0"

_ARGUMENT, _DATA = "canary-argument-2e94", "canary-extension-f17b"

_SECRETS = {
    "a credential": KEY,
    "the prompt": PROMPT,
    "the system prompt": _SYSTEM,
    "the description of a tool": _TOOL,
    "an extra field of the request": _EXTRA,
    "the answer": _SAID,
    "the thinking": _THOUGHT,
    "the signature of the thinking": _SIGNED,
    "an argument of a tool call": _ARGUMENT,
    "the data of an extension": _DATA,
}
"""Texts of the real calls that an observer must not write, each with a name for messages."""

CALLS = 50
"""The number of calls that a check makes, to notice objects that each call leaves behind."""

QUEUE_SECONDS = 10.0
"""Seconds that the check of kept objects waits for threads of observers that were closed."""

DELTAS = 500
MOST_SECONDS = 0.25
"""Seconds that an observer may take for a call of `DELTAS` deltas: half a millisecond for each."""
ROUNDS = 3
"""Number of measurements. A busy machine can slow down one of them, but hardly all."""


Scene = tuple[Sequence[MemoryResponse], Sequence[str], str]


def _scenes() -> dict[str, Scene]:
    """Return test calls by name: the responses, the models, and what the caller does."""

    def whole() -> MemoryResponse:
        return acme_answer(
            {"thinking": _THOUGHT, "signature": _SIGNED},
            {"text": _SAID},
            {"text": " and more"},
            {"extension": {"query": _DATA}},
            {"call": "add", "arguments": f'{{"to": "{_ARGUMENT}"}}'},
            {"stop": "tool_use"},
        )

    def refusal() -> MemoryResponse:
        return MemoryResponse.of_json({"error": f"{KEY} is not known"}, 401)

    pausing = PausingResponse(
        [b'data: {"text": "Hello"}\n\n'], headers={"Content-Type": "text/event-stream"}
    )
    large = ["acme/large"]
    return {
        "an answer": ([whole()], large, "read"),
        "a call made again": ([acme_answer({"error": "busy"}), whole()], large, "read"),
        "a fallback": ([refusal(), whole()], ["acme/large", "acme/small"], "read"),
        "a refusal": ([refusal()], large, "read"),
        "a cut answer": ([acme_answer({"text": "Hello"})], large, "read"),
        "a stream left early": ([whole()], large, "leave"),
        "a cancelled call": ([pausing], large, "cancel"),
    }  # fmt: skip


class _Witness:
    """An observer that stores every event of every call."""

    def __init__(self) -> None:
        self.events: list[ev.AssistantMessageEvent] = []

    @hookimpl
    def on_event(self, event: ev.AssistantMessageEvent) -> None:
        self.events.append(event)


class _Crashes:
    @hookimpl
    def on_event(self, event: ev.AssistantMessageEvent) -> None:
        if isinstance(event, ev.TextDelta):
            raise RuntimeError("an observer beside the one under examination")


async def _call(scene: Scene, plugins: Sequence[Any]) -> None:
    answers, models, how = scene
    retry = RetryPolicy(base=0.0, fall_back_on=frozenset({StreamErrorKind.AUTH}))
    own = {"acme": {"api_key": KEY, "base_url": "http://acme.invalid", "extra": {"note": _EXTRA}}}
    context = Context([UserMessage(PROMPT)], _SYSTEM, [Tool("add", _TOOL)])
    host, http = acme_host(plugins), MemoryHTTPClient(*answers)
    async with Client(host=host, http=http, retry=retry, providers=own) as client:

        async def read() -> None:
            async with client.stream(list(models), context) as stream:
                async for event in stream:
                    if isinstance(event, ev.TextDelta):
                        if how == "leave":
                            break
                        began.set()

        began = asyncio.Event()
        task = asyncio.create_task(read())
        if how == "cancel":
            await began.wait()
            task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()


def _events_of(scene: Scene, *plugins: Any) -> list[str]:
    witness = _Witness()
    asyncio.run(_call(scene, [_Crashes(), *plugins, witness]))
    return [event.type for event in witness.events]


@lru_cache
def _events_without(name: str) -> list[str]:
    """Return the events of the test call `name` without the observer under test."""
    with _log():
        return _events_of(_scenes()[name])


@contextlib.contextmanager
def _log() -> Iterator[io.StringIO]:
    """Capture the text of all log records of enabled levels."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    try:
        yield text
    finally:
        logging.getLogger().removeHandler(handler)


class _Other(ev.AssistantMessageEvent, tag="other"):
    """An event of a library that is built on the core, sent before or after a call."""


def _observe(binding: Binding, call: Call) -> Callable[[ev.AssistantMessageEvent], None]:
    """Return a function that passes an event of a call to the plugin.

    If the plugin has `other_events = True`, it also gets an event of another library before and
    after the call.
    """
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


def check_fits_the_hooks(subject: PluginSubject) -> None:
    """The plugin has a hook, spells all hooks correctly, and supports the core's API level."""
    try:
        binding = subject.binding()
    except PluginError as error:
        fail(str(error))
    for impl in binding.hook.on_event.get_hookimpls():
        require(
            not (inspect.iscoroutinefunction(impl.function) or _is_generator(impl.function)),
            "on_event is a coroutine or generator function, whose body never runs",
        )


def _is_generator(function: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def check_disturbs_no_call(subject: PluginSubject) -> None:
    """Calls behave as they do without the observer, which raises nothing and changes no event.

    The calls of this check succeed, are retried, fail, are aborted, or run concurrently.
    """
    binding = subject.observing()
    shows = {name: _observe(binding, new_call()) for name in SCRIPTS}
    streams = {name: make() for name, make in SCRIPTS.items()}
    while streams:  # an event of each call in turn
        for name in list(streams):
            event = next(streams[name], None)
            if event is None:
                del streams[name]
                continue
            before = copy.deepcopy(event)
            try:
                shows[name](event)
            except Exception as error:
                fail(f"it raises {type(error).__name__} at {event.type} of {name}: {error}")
            require(event == before, f"it changes {before!r:.200} into {event!r:.200}")
    for name in _scenes():
        plugin = subject.new()
        called = getattr(plugin, "name", None) or type(plugin).__name__
        with _log() as said:
            events = _events_of(_scenes()[name], plugin)
        require(events == _events_without(name), f"{name} has other events with it in place")
        require(f"observer {called}#" not in said.getvalue(), f"it raises in {name}")


def check_keeps_nothing(subject: PluginSubject) -> None:
    """The observer keeps no reference to events or calls, and no data for each finished call.

    The calls of this check succeed, are retried, fail or are aborted. Events in the observer's
    queue may remain there until the observer is closed, and until its thread, if it has one, has
    processed them. Bounded data, such as one sample for each class of durations, may grow at any
    time. So if too many objects exist after `CALLS` calls, the check measures ten times and then a
    hundred times as many calls.
    """
    threads = threading.enumerate()
    with only_new_objects():
        binding = subject.observing()
        watched: list[tuple[str, weakref.ref[ev.AssistantMessageEvent]]] = []
        ended = [_replay(binding, make, watched) for make in SCRIPTS.values()]
        _close(subject, threads)
        gc.collect()
    kept = sorted({name for name, alive in watched if alive() is not None})
    require(not kept, f"it keeps events alive: {', '.join(kept)}")
    require(not any(call() for call in ended), "it keeps the call alive after its terminal event")
    with only_new_objects():
        before = max(_left(subject, 2 * CALLS) for _ in range(2))  # this fills bounded tables
        for more in (CALLS, 10 * CALLS, 100 * CALLS):
            grown = _left(subject, 2 * CALLS + more) - before
            if grown < more / 2:
                return
    fail(f"{more} calls that have ended leave {grown} objects behind")


def _left(subject: PluginSubject, calls: int) -> int:
    """Return the number of blocks of memory in use after `calls` calls of each kind.

    Each object has a block. If Python does not count blocks, because the variable PYTHONMALLOC
    selects another allocator, this is the number of objects that the garbage collector tracks.
    """
    threads = threading.enumerate()
    binding = subject.observing()
    for _ in range(calls):
        for make in SCRIPTS.values():
            _replay(binding, make, None)
    _close(subject, threads)
    gc.collect()
    return sys.getallocatedblocks() or len(gc.get_objects())


def _replay(
    binding: Binding,
    make: Callable[[], Iterator[ev.AssistantMessageEvent]],
    watched: list[tuple[str, weakref.ref[ev.AssistantMessageEvent]]] | None,
) -> weakref.ref[Call]:
    """Pass the events of a call to the plugin, and return a reference to the call.

    References to the events are added to `watched`, unless it is `None`.
    """
    call = new_call()
    show = _observe(binding, call)
    for seconds, event in enumerate(make(), 1):
        set_times(call, event, float(seconds))
        if watched is not None:
            watched.append((event.type, weakref.ref(event)))
        with contextlib.suppress(Exception):  # which another check reports
            show(event)
    return weakref.ref(call)


def _close(subject: PluginSubject, before: Sequence[threading.Thread]) -> None:
    """Close the observer and wait for its threads; `before` are the threads of others.

    A slow observer may still process its queue in a thread after it was closed.
    """
    asyncio.run(subject.aclose())
    end = time.monotonic() + QUEUE_SECONDS
    for thread in threading.enumerate():
        if thread not in before:
            thread.join(max(0.0, end - time.monotonic()))


def check_never_blocks(subject: PluginSubject) -> None:
    """The observer processes an event quickly, because all other streams wait meanwhile.

    This includes events with texts of 256 KB.
    """
    binding = subject.observing()
    seconds = min(_seconds(_observe(binding, new_call())) for _ in range(ROUNDS))
    require(
        seconds < MOST_SECONDS,
        f"{DELTAS} deltas take it more than {MOST_SECONDS} s: hand slow work to a thread or task",
    )
    long = "x\n\x1b" * (HOSTILE_SIZE // 3)
    long_events = (
        ev.Notice("malformed_frame", long),
        ev.TextStart(0),
        ev.TextDelta(0, long),
        ev.TextEnd(0, {"long": long}),
        ev.Error(error_message=long, title=long, resolution=long, code=long),
    )

    def one_call() -> None:
        show = _observe(binding, new_call())
        for event in (ev.Start(), *long_events):
            show(event)

    require(
        cpu_seconds(one_call) < FREEZE,
        f"a call with long texts takes it more than {FREEZE} s of the processor's time",
    )


def _seconds(show: Callable[[ev.AssistantMessageEvent], None]) -> float:
    began = time.perf_counter()
    for event in answer(DELTAS):
        show(event)
        if time.perf_counter() - began > MOST_SECONDS:
            break
    return time.perf_counter() - began


def check_times_are_the_attempts(subject: PluginSubject) -> None:
    """The observer reads times from the call and its attempt, and does not read the clock."""
    for make in SCRIPTS.values():
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
        asyncio.run(subject.aclose())  # an observer with a thread then processes its queue
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
    """Set a call's times to `now`, in seconds, as the core does before observers get an event."""
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


def check_closes_in_time(subject: PluginSubject) -> None:
    """`aclose()`, if it exists, returns in time, and no thread or task of the observer remains."""
    subject.observing()
    plugin = subject.make()
    if not hasattr(plugin, "aclose"):
        raise DoesNotApply("it has no aclose()")

    async def live() -> list[str]:
        for name in ("an answer", "a refusal"):
            await _call(_scenes()[name], [plugin])
        async with asyncio.timeout(CLOSE_SECONDS):
            await plugin.aclose()
        here = asyncio.current_task()
        return [task.get_name() for task in asyncio.all_tasks() if task is not here]

    before = threading.enumerate()
    try:
        tasks = asyncio.run(live())
    except TimeoutError:
        fail(f"aclose() takes more than {CLOSE_SECONDS:g} s")
    require(not tasks, f"tasks are left: {', '.join(tasks)}")
    threads = [thread.name for thread in threading.enumerate() if thread not in before]
    require(not threads, f"threads are left: {', '.join(threads)}")


def check_keeps_secrets(subject: PluginSubject) -> None:
    """No credential, prompt or answer appears in logs, output and files.

    The prompt includes the system prompt, tools and extra fields of the request. The answer
    includes its thinking with the signature, the arguments of tool calls, and extension data.
    """
    subject.observing()
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown), _log() as said:
        plugin = subject.new()

        async def live() -> None:
            for scene in _scenes().values():
                await _call(scene, [plugin])

        asyncio.run(live())
    text = shown.getvalue() + said.getvalue() + subject.written(plugin)
    for what, secret in _SECRETS.items():
        require(secret not in text, f"{what} is in what it writes")


def check_silent_unless_configured(subject: PluginSubject) -> None:
    """An installed plugin without configuration prints nothing and starts no thread.

    It also writes no file.
    """
    subject.observing()
    if subject.installed is None:
        raise DoesNotApply("nothing says how it is installed")
    shown, before = io.StringIO(), threading.enumerate()
    with (
        tempfile.TemporaryDirectory() as home,
        mock.patch.dict(os.environ, {"HOME": home, "PATH": os.environ["PATH"]}, clear=True),
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(shown),
    ):
        plugin = subject.installed()
        if plugin is not None:
            asyncio.run(_call(_scenes()["a call made again"], [plugin]))
        files = sorted(path.name for path in Path(home).rglob("*"))
    require(not shown.getvalue(), f"it says {shown.getvalue()!r:.200}")
    require(not files, f"it writes {', '.join(files)}")
    threads = [thread.name for thread in threading.enumerate() if thread not in before]
    require(not threads, f"it starts {', '.join(threads)}")


@contextlib.contextmanager
def only_new_objects() -> Iterator[None]:
    """Make the garbage collector ignore the objects that exist before the `with` block.

    A test run has hundreds of thousands of such objects. If the test run has frozen objects itself
    (`gc.freeze`), these objects stay frozen too.
    """
    if for_good := _leaves_some_out():
        gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        if not for_good:
            gc.unfreeze()


@functools.cache
def _leaves_some_out() -> bool:
    """Return True if the test run has frozen objects.

    The result is cached, because counting the objects is slow.
    """
    return gc.get_freeze_count() > 0

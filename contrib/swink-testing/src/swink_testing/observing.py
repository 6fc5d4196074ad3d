"""An observer in real calls, through a client and over a network made of memory.

The calls are answered, made again, handed to the next model, refused, cut, left early and
cancelled, next to an observer that crashes.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import io
import logging
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest import mock

from swink_core import Client, RetryPolicy, StreamErrorKind, hookimpl
from swink_core.plugins.binding import Binding
from swink_core.plugins.host import CLOSE_SECONDS
from swink_core.vocabulary import events as ev
from swink_testing.acme import acme_answer, acme_host
from swink_testing.calls import new_call
from swink_testing.conformance.check import DoesNotApply, fail, require
from swink_testing.conformance.plugins.subject import PluginSubject, answer
from swink_testing.driver import MemoryHTTPClient, MemoryResponse
from swink_testing.freeze import FREEZE, HOSTILE_SIZE, cpu_seconds

__all__ = [
    "PausingResponse",
    "check_closes_in_time",
    "check_disturbs_no_call",
    "check_keeps_secrets",
    "check_leaks_nothing",
    "check_never_freezes",
    "check_silent_unless_configured",
    "only_new_objects",
]

KEY, PROMPT, SAID = "canary-key-3f9a17", "canary-prompt-77c1", "canary-answer-0b52"

CALLS = 50
"""Calls after which something that each of them leaves behind is seen."""

Scene = tuple[Sequence[MemoryResponse], Sequence[str], str]


class PausingResponse(MemoryResponse):
    """Sends its data, and then nothing."""

    async def __anext__(self) -> bytes:
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            await asyncio.Event().wait()
            raise


def _scenes() -> dict[str, Scene]:
    """Return calls by name: what is answered, the models asked, and how the caller takes it."""

    def whole() -> MemoryResponse:
        texts = [{"text": SAID}, {"text": " and more"}, {"call": "add", "arguments": "{}"}]
        return acme_answer(*texts, {"stop": "tool_use"})

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
    """Keeps every event of every call."""

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
    own = {"acme": {"api_key": KEY, "base_url": "http://acme.invalid"}}
    host, http = acme_host(plugins), MemoryHTTPClient(*answers)
    async with Client(host=host, http=http, retry=retry, providers=own) as client:

        async def read() -> None:
            async with client.stream(list(models), PROMPT) as stream:
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
    """Return the events of a scene without the observer under examination."""
    with _log():
        return _events_of(_scenes()[name])


@contextlib.contextmanager
def _log() -> Iterator[io.StringIO]:
    """Catch what anybody logs, at any level that is on."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    logging.getLogger().addHandler(handler)
    try:
        yield text
    finally:
        logging.getLogger().removeHandler(handler)


def check_disturbs_no_call(subject: PluginSubject) -> None:
    """Real calls behave as without the observer, which never raises."""
    subject.observing()
    for name in _scenes():
        plugin = subject.new()
        called = getattr(plugin, "name", None) or type(plugin).__name__
        with _log() as said:
            events = _events_of(_scenes()[name], plugin)
        require(events == _events_without(name), f"{name} has other events with it in place")
        require(f"observer {called}#" not in said.getvalue(), f"it raises in {name}")


def check_leaks_nothing(subject: PluginSubject) -> None:
    """Finished calls leave nothing behind that grows with their number.

    Events in the observer's own queue may wait until it is closed. What is bounded, such as one
    sample for each class of durations, is filled when it happens to be: where so many calls leave
    too much, ten times as many say whether it goes on.
    """

    def left(calls: int) -> int:
        binding = subject.observing()
        show = _shows(binding)
        for _ in range(calls):
            call = new_call()
            for event in answer():
                show(event, call)
        asyncio.run(subject.aclose())
        gc.collect()
        return len(gc.get_objects())

    with only_new_objects():
        before = max(left(2 * CALLS) for _ in range(2))  # tables are filled, and what is bounded
        for more in (CALLS, 10 * CALLS):
            grown = left(2 * CALLS + more) - before
            if grown < more / 2:
                return
    fail(f"{more} calls that have ended leave {grown} objects behind")


def check_never_freezes(subject: PluginSubject) -> None:
    """Texts of 256 KB from a server do not block the event loop."""
    show, long = _shows(subject.observing()), "x\n\x1b" * (HOSTILE_SIZE // 3)
    long_events = (
        ev.Notice("malformed_frame", long),
        ev.TextStart(0),
        ev.TextDelta(0, long),
        ev.TextEnd(0, {"long": long}),
        ev.Error(error_message=long, title=long, resolution=long, code=long),
    )

    def one_call() -> None:
        call = new_call()
        for event in (ev.Start(), *long_events):
            show(event, call)

    require(
        cpu_seconds(one_call, FREEZE) < FREEZE,
        f"a call with long texts takes it more than {FREEZE} s of the processor's time",
    )


def check_closes_in_time(subject: PluginSubject) -> None:
    """`aclose()`, if defined, returns in time and leaves no thread and no task."""
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
    """No credential, prompt or answer appears in logs, output and files."""
    subject.observing()
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown), _log() as said:
        plugin = subject.new()

        async def live() -> None:
            for scene in _scenes().values():
                await _call(scene, [plugin])

        asyncio.run(live())
    text = shown.getvalue() + said.getvalue() + subject.written(plugin)
    for what, secret in (("a credential", KEY), ("the prompt", PROMPT), ("the answer", SAID)):
        require(secret not in text, f"{what} is in what it writes")


def check_silent_unless_configured(subject: PluginSubject) -> None:
    """Installed but not configured, it prints nothing, writes no file and starts no thread."""
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
    """Have the garbage collector look at no object that is there already, of which a test run has
    hundreds of thousands. In a run that leaves some out itself, these are left out for good too."""
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
    """Tell whether the run does; asked once, because they are counted one by one."""
    return gc.get_freeze_count() > 0


def _shows(binding: Binding) -> Callable[[ev.AssistantMessageEvent, Any], None]:
    """Return a function that passes one event of a call to the plugin."""
    hook = binding.hook.on_event

    def show(event: ev.AssistantMessageEvent, call: Any) -> None:
        if isinstance(event, ev.Done | ev.Error):
            call.add(event.usage, event.cost)
        hook(event=event, call=call)

    return show

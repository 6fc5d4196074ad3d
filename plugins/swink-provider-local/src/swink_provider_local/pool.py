"""The running engines (processes that serve a model), within limits of memory and idle time.

Engines belong to the process, not to a client or an event loop: a model takes gigabytes of memory,
and a script that opens a client for each call should not load the model each time. Therefore
engines are started and stopped in threads, a lock guards the table of engines, and the caller's
event loop is used only to wait for a start. Calls that need the same engine wait for the same
start. Cancelling one of these calls does not cancel the start.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import cache
from typing import Protocol, TypeVar

from attrs import define

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_provider_local.choice import whole_number
from swink_provider_local.engine import Engine, Settings
from swink_provider_local.hub import size_text
from swink_provider_local.memory import MIB, memory_of

__all__ = ["EnginePool", "in_thread", "limits", "shared_pool"]

log = logging.getLogger(__name__)

LIMIT_ENV, LIMIT = "SWINK_LOCAL_ENGINES", 2
MEMORY_ENV = "SWINK_LOCAL_MEMORY"
IDLE_ENV, IDLE_SECONDS = "SWINK_LOCAL_IDLE", 300

Result = TypeVar("Result")


class PoolClock(Protocol):
    """The clock of the pool: the time in seconds, and delayed callbacks."""

    def time(self) -> float:
        """Return monotonic seconds."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when `time()` has reached `when`; return a function that cancels it."""


class ThreadClock:
    """A clock with the system's time. It works without an event loop."""

    time = staticmethod(time.monotonic)

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` in a separate thread; return a function that cancels it."""
        timer = threading.Timer(max(0.0, when - self.time()), callback)
        timer.daemon = True
        timer.start()
        return timer.cancel


def in_thread(work: Callable[[], Result]) -> Future[Result]:
    """Run blocking work in a thread. An event loop that ends does not wait for this thread."""
    future: Future[Result] = Future()
    future.set_running_or_notify_cancel()  # cancelling a waiter does not cancel the work

    def run() -> None:
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name="swink-local", daemon=True).start()
    return future


@define(eq=False)
class _Entry:
    """A running or starting engine, its memory in bytes, and the number of calls that use it."""

    start: Future[Engine]
    memory: int = 0
    leases: int = 0
    cancel_timer: Callable[[], None] | None = None

    def is_over(self) -> bool:
        """Return True if the engine could not be started or its process has ended."""
        if not self.start.done():
            return False
        return self.start.exception() is not None or not self.start.result().alive

    def stop(self, _: object = None) -> None:
        """Stop the engine, after waiting for its start. This call blocks.

        The argument is ignored; with it, this method can be the callback of a future.
        """
        if self.start.exception() is None:
            self.start.result().stop()


class EnginePool:
    """Starts engines on demand, and stops them after `idle_seconds` without a call.

    At most `limit` engines run at a time, and together they take at most `memory` bytes (`None`: no
    limit other than the machine's memory). If another engine needs room, the least recently used
    engines are stopped. Tests can replace the function that starts an engine by `start`, the
    function that estimates its memory by `measure`, and the clock by `clock`.
    """

    def __init__(
        self,
        limit: int | None = LIMIT,
        idle_seconds: float = IDLE_SECONDS,
        memory: int | None = None,
        *,
        clock: PoolClock | None = None,
        start: Callable[[Settings], Engine] = Engine.start,
        measure: Callable[[Settings], int] = memory_of,
    ) -> None:
        self._limit = limit
        self._memory = memory
        self._measure = measure
        self._idle_seconds = idle_seconds
        self._clock = clock or ThreadClock()
        self._start = start
        self._lock = threading.Lock()
        self._entries: dict[Settings, _Entry] = {}  # the least recently used one comes first

    @asynccontextmanager
    async def lease(self, settings: Settings) -> AsyncIterator[Engine]:
        """Start an engine if necessary, and keep it running as long as the context is open.

        Raises ProviderFailure: `internal` if the engine does not start, `overloaded` if engines of
        other models are in use and leave no room, `unsupported` if the memory limit is too low even
        for this engine alone.
        """
        entry = self._enter(settings)
        try:
            yield await asyncio.wrap_future(entry.start)
        finally:
            self._leave(settings, entry)

    def running(self) -> list[Engine]:
        """Return the running engines."""
        with self._lock:
            entries = list(self._entries.values())
        return [e.start.result() for e in entries if e.start.done() and not e.is_over()]

    def close(self) -> None:
        """Stop all engines, including those that are starting. This call blocks."""
        with self._lock:
            entries = list(self._entries.values())
            self._entries.clear()
        for entry in entries:
            if entry.cancel_timer is not None:
                entry.cancel_timer()
            if entry.start.done():
                entry.stop()
            else:
                entry.start.add_done_callback(entry.stop)

    def _enter(self, settings: Settings) -> _Entry:
        with self._lock:
            entry = self._entries.pop(settings, None)
            if entry is None or entry.is_over():
                dying = [entry] if entry is not None else []
                memory = 0 if self._memory is None else self._measure(settings)
                dying += self._make_room(settings, memory)
                entry = _Entry(in_thread(lambda: self._replace(dying, settings)), memory)
            self._entries[settings] = entry
            entry.leases += 1
            if entry.cancel_timer is not None:
                entry.cancel_timer()
                entry.cancel_timer = None
            return entry

    def _make_room(self, wanted: Settings, memory: int) -> list[_Entry]:
        """Remove idle engines from the table until an engine with the settings `wanted` fits.

        Return the removed entries. The caller must stop their engines.
        """
        if self._memory is not None and memory > self._memory:
            raise ProviderFailure(_too_large(wanted, memory, self._memory))
        idle = [settings for settings, entry in self._entries.items() if not entry.leases]
        left = list(self._entries)
        while not self._has_room(left, memory):
            if not idle:
                raise ProviderFailure(_too_many(len(left)))
            left.remove(idle.pop(0))
        leaving = [self._entries.pop(each) for each in [*self._entries] if each not in left]
        for entry in leaving:
            if entry.cancel_timer is not None:
                entry.cancel_timer()
        return leaving

    def _has_room(self, others: list[Settings], memory: int) -> bool:
        """Return True if an engine that needs `memory` bytes fits beside the engines `others`."""
        taken = sum(self._entries[each].memory for each in others)
        few = self._limit is None or len(others) < self._limit
        return few and (self._memory is None or taken + memory <= self._memory)

    def _replace(self, dying: list[_Entry], settings: Settings) -> Engine:
        for entry in dying:  # first, because the new one may need their memory
            entry.stop()
        return self._start(settings)

    def _leave(self, settings: Settings, entry: _Entry) -> None:
        with self._lock:
            entry.leases -= 1
            if not entry.leases and self._entries.get(settings) is entry:
                when = self._clock.time() + self._idle_seconds
                entry.cancel_timer = self._clock.call_at(
                    when, lambda: self._retire(settings, entry)
                )

    def _retire(self, settings: Settings, entry: _Entry) -> None:
        with self._lock:
            if entry.leases or self._entries.get(settings) is not entry:
                return
            del self._entries[settings]
        log.info("%s has been idle for %g s: stopped", settings.path.name, self._idle_seconds)
        in_thread(entry.stop)


def _too_many(number: int) -> Failure:
    return Failure(
        "connect",
        kind=Kind.OVERLOADED,
        code="engines",
        message=f"{number} other models are busy, and the limits allow no more",
        title="Too many busy models",
        resolution=f"Try again when one is done, or raise {LIMIT_ENV} or {MEMORY_ENV} if this "
        "machine has the memory.",
    )


def _too_large(settings: Settings, memory: int, limit: int) -> Failure:
    return Failure(
        "connect",
        kind=Kind.UNSUPPORTED,
        code="memory",
        message=f"{settings.path.name} with a context of {settings.context} tokens takes about "
        f"{size_text(memory)} of memory, and the limit is {size_text(limit)}",
        title="Too large for the memory limit",
        resolution=f"Raise {MEMORY_ENV}, or ask for a smaller context, a smaller type of its cache "
        "(SWINK_LOCAL_CACHE_TYPE) or a smaller file.",
    )


@cache
def shared_pool() -> EnginePool:
    """Return the pool of this process, with limits from the environment."""
    pool = EnginePool(*limits(os.environ))
    atexit.register(pool.close)
    return pool


def limits(environ: Mapping[str, str]) -> tuple[int | None, float, int | None]:
    """Read the limits from the environment: number of engines, idle seconds, and bytes of memory.

    The number of engines is `None` (unlimited) if the environment limits only the memory, and the
    memory is `None` if the environment does not limit it. Raises ProviderFailure
    (`invalid_request`) for an invalid value.
    """
    limit, idle = whole_number(environ, LIMIT_ENV, 1), whole_number(environ, IDLE_ENV, 0)
    memory = whole_number(environ, MEMORY_ENV, 1)
    number = limit or (LIMIT if memory is None else None)
    return number, IDLE_SECONDS if idle is None else idle, memory and memory * MIB

"""`Background`: run a slow observer in a separate thread behind a bounded queue.

    async with Background(WritesToADatabase()) as observer, swink.Client(plugins=[observer]) as c:
        ...

Streams do not wait for the observer: if it is too slow, events are dropped and counted. Deltas are
dropped if the queue contains `size` events. Other events are dropped only if the queue contains
twice as many.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from contextvars import copy_context
from copy import copy
from queue import SimpleQueue
from typing import Any, Self, get_args

from attrs import evolve

import swink_core as swink
from swink_core.providers import Attempt
from swink_observers.calls import EVENTS, Delta

__all__ = ["Background"]

log = logging.getLogger(__name__)

SIZE = 10_000
"""The default number of queued events at which further deltas are dropped."""

_DELTAS = get_args(Delta)
"""A check against a tuple is faster than one against a union."""

FLUSH_SECONDS = 4.0
"""How many seconds `aclose` waits for queued events.

Clients wait longer than this for their plugins to close.
"""


class Background:
    """Deliver events to `observer` in a separate thread, in order.

    Deltas are dropped while `size` or more events are queued. `flush_seconds`
    is how long `aclose()` waits for queued events. The observer gets copies of the call and the
    attempt, made when the event occurred, so that measured times do not include the time in the
    queue. The deltas of one network read share a copy. If the observer raises an exception, it is
    logged, and the observer gets no more events of that call. `dropped` counts dropped events.
    Raises PluginError if `on_event` has unsupported parameters.
    """

    def __init__(
        self, observer: Any, *, size: int = SIZE, flush_seconds: float = FLUSH_SECONDS
    ) -> None:
        self.name: str = getattr(observer, "name", None) or type(observer).__name__
        self.dropped = 0
        self._observer = observer
        self.other_events: bool = getattr(observer, "other_events", False)
        self._names = tuple(inspect.signature(observer.on_event).parameters)
        if others := set(self._names) - {"event", "call"}:
            raise swink.PluginError(
                f"observer {self.name}: on_event takes {', '.join(sorted(others))}",
                resolution="Its arguments are event and call, or one of them, by these names; pass "
                "an object, not its class.",
            )
        self._size = size
        self._flush_seconds = flush_seconds
        self._queue: SimpleQueue[tuple[Any, swink.Call] | None] = SimpleQueue()
        self._calls: dict[str, swink.Call] = {}
        self._thread: threading.Thread | None = None
        self._closed = False

    @swink.hookimpl
    def on_event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Queue an event, or drop it."""
        is_delta = isinstance(event, _DELTAS)
        view = self._calls.get(call.id) if is_delta else None
        if view is None or not _is_of_now(view.attempt, call.attempt):
            view = _copied(call)
        if isinstance(event, swink.Done | swink.Error):
            self._calls.pop(call.id, None)
        elif type(event) in EVENTS:
            self._calls[call.id] = view
        if self._closed or self._queue.qsize() >= self._size * (1 if is_delta else 2):
            self.dropped += 1
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self.name, daemon=True)
            self._thread.start()
        self._queue.put((event, view))

    async def aclose(self) -> None:
        """Wait until the observer has processed the queued events, then close the observer.

        The wait takes at most `flush_seconds`. Events that are still queued then count as dropped.
        """
        self._closed = True
        if self._thread is not None:
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join, self._flush_seconds)
            if self._thread.is_alive():
                left = self._queue.qsize()
                self.dropped += left
                log.error("observer %s did not get through %d events in time", self.name, left)
        if self.dropped:
            log.warning("observer %s was too slow for %d events", self.name, self.dropped)
        close = getattr(self._observer, "aclose", None)
        if close is not None:
            await close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def _work(self) -> None:
        failed = set[str]()
        while (item := self._queue.get()) is not None:
            event, call = item
            if call.id not in failed:
                try:
                    self._show(event, call)
                except BaseException as error:
                    failed.add(call.id)
                    trace = call.trace(error)
                    log.error("observer %s raised; it misses this call:\n%s", self.name, trace)
            if isinstance(event, swink.Done | swink.Error) or type(event) not in EVENTS:
                failed.discard(call.id)
            del item, event, call  # do not keep them while the queue is empty

    def _show(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        shown = {"event": event, "call": call}
        given = {name: shown[name] for name in self._names}
        if type(event) in EVENTS:
            self._observer.on_event(**given)
        else:  # use a copy of the context, so that changes do not affect later events
            copy_context().run(self._observer.on_event, **given)


def _is_of_now(kept: Attempt, attempt: Attempt) -> bool:
    """Return True if no network read has occurred since `kept`, a copy of `attempt`, was made."""
    return (kept.number, kept.reads, kept.read_at) == (
        attempt.number,
        attempt.reads,
        attempt.read_at,
    )


def _copied(call: swink.Call) -> swink.Call:
    """Copy the call and its attempt, which the event loop continues to change."""
    return evolve(call, attempt=copy(call.attempt), totals=swink.replace(call.totals))

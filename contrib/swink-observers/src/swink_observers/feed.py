"""`Feed`: a stream of records about calls, for any number of readers.

    begin      a call begins
    progress   duration and usage so far, at a limited rate
    content    a piece of the answer, if requested
    retry      the call is retried
    notice     a notice about the call
    end        the call has ended

Records are stored in a ring buffer, and a reader is only a position in this buffer. So a slow
reader needs no memory: if it misses records, it gets a `gap` record with the number of lost
records.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import threading
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

import swink_core as swink
from swink_core.providers import LoopClock
from swink_observers.calls import CallObserver, CallState, Delta

__all__ = ["Feed", "Record"]

KEPT = 1_000
"""How many records are stored. A reader that falls further behind misses records."""

PROGRESS_SECONDS = 0.5
"""The minimum seconds between two records about the progress of a call."""

MOST_CHARACTERS = 1_000
"""The maximum number of characters of a provider's error message in a record."""

MOST_CONTENT = 8_000
"""The maximum number of characters in a `content` record; longer content is split."""

PER_TOKEN = 4
"""The assumed number of characters per token, until the provider reports a count."""


_PLACE = re.compile(r"[0-9]{1,18}")


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record of the feed: `name` is its kind, `data` is a JSON object.

    `id` is the record's position in the feed. It is `None` if the record is for a single reader.
    """

    name: str
    data: bytes
    id: str | None = None


class _Reader:
    """The position of one reader in the feed. Any thread can wake the reader."""

    def __init__(self, place: int) -> None:
        self.place = place
        self.waits = False
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        if self.waits:
            self.waits = False
            with contextlib.suppress(RuntimeError):  # the reader's event loop has ended
                self._loop.call_soon_threadsafe(self._woken.set)

    async def news(self, seconds: float) -> bool:
        """Wait for a record to be published. Return False after `seconds` without a record."""
        try:
            async with LoopClock.limit(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        finally:
            self._woken.clear()
        return True


class Feed(CallObserver["_Call"]):
    """An observer that publishes the progress of calls to its readers.

    `kept` is the number of records that are stored. With `content`, answers are published as well;
    prompts never are.
    """

    name = "feed"

    def __init__(self, *, kept: int = KEPT, content: bool = False) -> None:
        super().__init__()
        self.content = content
        self._ring: deque[Record] = deque(maxlen=kept)
        self._count = 0
        # A prefix of ids that distinguishes this feed from an earlier feed at the same address.
        self._feed = secrets.token_hex(4)
        self._readers: set[_Reader] = set()
        self._ended = False
        self._lock = threading.Lock()  # calls and readers may be in different threads

    def watch(self, call: swink.Call) -> _Call:
        """Publish that a call begins."""
        return _Call(call, self)

    def publish(self, name: str, data: dict[str, Any]) -> None:
        """Add a record, and wake the readers that wait for one."""
        encoded = msgspec.json.encode(data)
        with self._lock:
            self._count += 1
            self._ring.append(Record(name, encoded, f"{self._feed}.{self._count}"))
        for reader in (*self._readers,):
            reader.wake()

    def end(self) -> None:
        """End the feed: readers stop after they have read the remaining records."""
        self._ended = True
        for reader in (*self._readers,):
            reader.wake()

    async def drained(self) -> None:
        """Wait until the feed has no readers. Call `end` first, so that no new readers arrive."""
        while self._readers:  # noqa: ASYNC110  # readers may be in other threads
            await asyncio.sleep(0.01)

    def follow(
        self, *, after: str | None = None, last: int = 0, idle: float = 15.0
    ) -> AsyncGenerator[Record | None, None]:
        """Yield records as they arrive, until the feed ends.

        Yield `None` after `idle` seconds without a record. All records published after this call
        are included, even if the caller begins to iterate later. `after` is the id of the last
        record that the reader has read, possibly over an earlier connection. If records after that
        one are no longer stored, a `gap` record contains the number of lost records (`None`:
        unknown, because the feed was restarted). Without `after`, the generator first yields the
        newest stored records, at most as many as `last`. Then come a record `progress` for each
        running call and a record `now`, after which all records are new.
        """
        with self._lock:
            place, kept = self._count, len(self._ring)
        if after is None:
            return self._follow(place - min(last, kept), idle, welcome=True)
        feed, _, number = after.rpartition(".")
        if feed == self._feed and _PLACE.fullmatch(number) and int(number) <= place:
            return self._follow(int(number), idle)
        return self._follow(place - kept, idle, gap=True)

    async def _follow(
        self, place: int, idle: float, gap: bool = False, welcome: bool = False
    ) -> AsyncGenerator[Record | None, None]:
        if gap:
            yield _gap(None)
        reader = _Reader(place)
        self._readers.add(reader)
        try:
            while True:
                reader.waits = True  # first, so that no record published now is missed
                if (record := self._next(reader)) is not None:
                    yield record
                elif welcome:
                    welcome = False
                    for state in [*self._running.values()]:
                        if state is not None:
                            yield Record("progress", msgspec.json.encode(state.told()))
                    yield Record("now", b"{}")
                elif self._ended:
                    return
                elif not await reader.news(idle):
                    yield None
        finally:
            self._readers.discard(reader)

    def _next(self, reader: _Reader) -> Record | None:
        """Return the next record that a reader has not read, and advance the reader."""
        with self._lock:
            behind, kept = self._count - reader.place, len(self._ring)
            if behind > kept:
                reader.place = self._count - kept
                return _gap(behind - kept)
            if not behind:
                return None
            reader.place += 1
            return self._ring[kept - behind]


def _gap(lost: int | None) -> Record:
    return Record("gap", msgspec.json.encode({"lost": lost}))


class _Call(CallState):
    """Publishes the records of one call."""

    def __init__(self, call: swink.Call, feed: Feed) -> None:
        super().__init__()
        self.deltas = True
        self._feed = feed
        self._clock = call.clock
        self._began = call.started_at
        self._attempt = call.attempt
        self._first: float | None = None
        self._last_told = call.started_at
        self._characters = 0  # characters of the attempt
        self._pieces: list[str] = []  # deltas of one block that are not published yet
        self._block = -1  # the block of these deltas
        self._kinds: dict[int, str] = {}  # the kind of each block of the attempt
        self._facts: dict[str, Any] = {"call": call.id, "model": str(call.model)}
        self._retries = 0
        self._publish("begin")

    def _publish(self, name: str, **told: Any) -> None:
        time = self._clock.now().isoformat(timespec="milliseconds")
        self._feed.publish(name, {"time": time, **self._facts, **told})

    def told(self, at: float | None = None) -> dict[str, Any]:
        """Return the progress of the call: the seconds so far, and estimated token counts.

        `at` is the time up to which the seconds are counted, by the call's clock (`None`: now).
        """
        now = self._clock.time() if at is None else at
        first, began = self._first, self._attempt.started_at
        return {
            **self._facts,
            "age": round(now - self._began, 3),
            "first": None if first is None or began is None else round(first - began, 3),
            "output": self._characters // PER_TOKEN,
            "rate": self._rate(self._characters / PER_TOKEN, now),
            "retries": self._retries,
        }

    def _rate(self, tokens: float, now: float) -> float | None:
        first = self._first
        return round(tokens / (now - first), 1) if first is not None and now > first else None

    def chunk(self, call: swink.Call) -> None:
        """Publish progress at a limited rate, and schedule publication of the chunk's content."""
        now = call.attempt.read_at
        if now is None:
            return
        if self._first is None:
            self._first = now
        if self._feed.content:
            with contextlib.suppress(RuntimeError):  # no loop is running: published with the block
                asyncio.get_running_loop().call_soon(self._tell_content)
        if now - self._last_told >= PROGRESS_SECONDS:
            self._last_told = now
            self._publish("progress", **self.told(now))

    def delta(self, event: Delta, call: swink.Call) -> None:
        """Count a delta, and store it if content is published."""
        self._characters += len(event.delta)
        if self._feed.content:
            if event.content_index != self._block:  # several tool calls may be open
                self._tell_content()
                self._block = event.content_index
            self._pieces.append(event.delta)

    def event(self, event: swink.AssistantMessageEvent, call: swink.Call) -> None:
        """Publish the record of an event."""
        self._tell_content()
        match event:
            case swink.TextStart() | swink.ThinkingStart() | swink.ToolCallStart():
                self._kinds[event.content_index] = event.type.removesuffix("_start")
            case swink.Start():
                self._kinds.clear()
                self._characters, self._first = 0, None
                self._attempt = call.attempt
                self._facts["model"] = str(call.model)
            case swink.Notice(code=code):
                self._publish("notice", code=code)
            case swink.Retry():
                self._retries += 1
                why = {"kind": event.error_kind, "error": _said(event.error, call)}
                told = {"next": event.model, "delay": round(event.delay, 3), **why}
                self._publish("retry", retries=self._retries, **told)
            case swink.Done() | swink.Error():
                self._tell_end(event, call)

    def _tell_content(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        for start in range(0, len(text), MOST_CONTENT):
            told = {"block": self._block, "kind": self._kinds[self._block]}
            piece = text[start : start + MOST_CONTENT].encode("utf-8", "replace").decode()
            self._publish("content", **told, text=piece)

    def _tell_end(self, event: swink.Done | swink.Error, call: swink.Call) -> None:
        usage, cost = call.usage or swink.Usage(), call.cost or swink.Cost()
        end = call.clock.time() if call.ended_at is None else call.ended_at
        told: dict[str, Any] = {"stop": event.stop_reason}
        if self.cached:
            told |= {"cached": True, "output": None, "rate": None}
        elif event.usage is not None and event.usage.output is not None:
            told["rate"] = self._rate(event.usage.output, end)
        # a cached answer takes nothing, but failed attempts before it may have
        if not self.cached or call.attempts > 1:
            told |= {"input": usage.input, "output": usage.output, "cost": cost.total}
            if cost.estimated:
                told["estimated"] = True
        if isinstance(event, swink.Error):
            told |= {"kind": event.error_kind, "error": _said(event.error_message, call)}
        self._publish("end", **{**self.told(end), **told})


def _said(text: str, call: swink.Call) -> str:
    return call.redact(text)[:MOST_CHARACTERS].encode("utf-8", "replace").decode()

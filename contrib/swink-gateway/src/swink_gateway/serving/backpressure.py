"""A queue of events between an upstream and a client that reads more slowly.

The queue holds at most `MOST_QUEUED` events. When it is full, a delta is merged into the last
queued delta of the same block; any other event waits for room, and meanwhile the upstream is not
read. A slow client therefore gets fewer and larger deltas, and the memory per client is bounded. No
event is dropped: lifecycle, tool, finish and error events are sent one by one, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from swink_core import AssistantMessageEvent, TextDelta, ThinkingDelta, ToolCallDelta

__all__ = ["MOST_QUEUED", "Outbox", "read_ahead"]

MOST_QUEUED = 32
"""The limit for queued events."""

MOST_JOINED = 16 * 1024
"""The limit for the characters of a merged delta."""

MOST_TAKEN = 64 * 1024
"""The approximate limit for the characters of the deltas in one write."""

Delta = TextDelta | ThinkingDelta | ToolCallDelta
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)


class _Joined:
    """Merged deltas of one block; `size` is their number of characters."""

    def __init__(self, delta: Delta) -> None:
        self._kind = type(delta)
        self._index = delta.content_index
        self._texts = [delta.delta]
        self.size = len(delta.delta)

    def of(self, other: Delta) -> bool:
        """Return True if a delta belongs to the same block."""
        return type(other) is self._kind and other.content_index == self._index

    def add(self, other: Delta) -> bool:
        """Merge another delta; return `False` if the result would be too large."""
        if self.size + len(other.delta) > MOST_JOINED:
            return False
        self._texts.append(other.delta)
        self.size += len(other.delta)
        return True

    def event(self) -> Delta:
        """Return the merged delta."""
        return self._kind(self._index, "".join(self._texts))


class Outbox:
    """The queue for one client; `on_full` is called when an event does not fit."""

    def __init__(self, on_full: Callable[[], None], most: int = MOST_QUEUED) -> None:
        self._waiting: deque[Any] = deque()
        self._most = most
        self._on_full = on_full
        self._changed = asyncio.Event()
        self._closed = False

    async def put(self, event: AssistantMessageEvent) -> None:
        """Queue an event, merge it into a queued delta of the same block, or wait for room."""
        if len(self._waiting) >= self._most:
            if isinstance(event, _DELTAS) and self._join(event):
                return
            self._on_full()
            while len(self._waiting) >= self._most:
                await self._change()
        self._waiting.append(_Joined(event) if isinstance(event, _DELTAS) else event)
        self._changed.set()

    def close(self) -> None:
        """Make `take` return an empty sequence once the queue is empty."""
        self._closed = True
        self._changed.set()

    async def take(self) -> Sequence[AssistantMessageEvent]:
        """Wait for events and return them; an empty sequence means the end."""
        while not self._waiting and not self._closed:
            await self._change()
        taken: list[AssistantMessageEvent] = []
        size = 0
        while self._waiting and size < MOST_TAKEN:
            one = self._waiting.popleft()
            if isinstance(one, _Joined):
                size += one.size
                one = one.event()
            taken.append(one)
        self._changed.set()
        return taken

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _join(self, event: Delta) -> bool:
        """Merge a delta into the queued delta of the same block; return whether this was possible.

        Merging is not possible if an event other than a delta was queued later, or if the merged
        delta would be too large.
        """
        for waiting in reversed(self._waiting):
            if not isinstance(waiting, _Joined):
                return False
            if waiting.of(event):
                return waiting.add(event)
        return False


async def read_ahead(
    batches: AsyncIterator[Sequence[AssistantMessageEvent]],
    heard: Callable[[Sequence[AssistantMessageEvent]], None],
    on_full: Callable[[], None],
) -> AsyncIterator[Sequence[AssistantMessageEvent]]:
    """Yield the upstream's batches of events, and read further batches while earlier ones are used.

    `heard` is called with each batch as it arrives.
    """
    box = Outbox(on_full)

    async def fill() -> None:
        try:
            async for batch in batches:
                heard(batch)
                for event in batch:
                    await box.put(event)
        finally:
            box.close()

    filling = asyncio.ensure_future(fill())
    try:
        while taken := await box.take():
            yield taken
        await filling
    finally:
        filling.cancel()
        with suppress(asyncio.CancelledError):
            await filling

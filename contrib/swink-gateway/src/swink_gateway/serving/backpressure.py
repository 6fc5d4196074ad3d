"""A queue of events between an upstream that is read on and a client that reads more slowly.

It holds `MOST_QUEUED` events. When it is full, a further piece of a block is joined to the last
piece of the same block that waits; everything else waits for room, and with it the upstream. So a
slow client gets fewer and larger pieces, and the memory for one client has a bound. No event is
dropped: lifecycle, tool, finish and error events go through one by one, in their order.
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
"""Events that wait for their client."""

MOST_JOINED = 16 * 1024
"""Characters of pieces that are joined to one."""

MOST_TAKEN = 64 * 1024
"""Characters of pieces that are written at a time, give or take one event."""

Delta = TextDelta | ThinkingDelta | ToolCallDelta
_DELTAS = (TextDelta, ThinkingDelta, ToolCallDelta)


class _Joined:
    """Pieces of one block that wait together; `size` is how many characters they have."""

    def __init__(self, delta: Delta) -> None:
        self._kind = type(delta)
        self._index = delta.content_index
        self._texts = [delta.delta]
        self.size = len(delta.delta)

    def of(self, other: Delta) -> bool:
        """Tell whether a piece belongs to the same block."""
        return type(other) is self._kind and other.content_index == self._index

    def add(self, other: Delta) -> bool:
        """Join another piece; tell whether there was room."""
        if self.size + len(other.delta) > MOST_JOINED:
            return False
        self._texts.append(other.delta)
        self.size += len(other.delta)
        return True

    def event(self) -> Delta:
        """Return the pieces as one."""
        return self._kind(self._index, "".join(self._texts))


class Outbox:
    """Events that wait for one client; `on_full` is called when one finds no place."""

    def __init__(self, on_full: Callable[[], None], most: int = MOST_QUEUED) -> None:
        self._waiting: deque[Any] = deque()
        self._most = most
        self._on_full = on_full
        self._changed = asyncio.Event()
        self._closed = False

    async def put(self, event: AssistantMessageEvent) -> None:
        """Queue an event, or join it to one of the same block, or wait."""
        if len(self._waiting) >= self._most:
            if isinstance(event, _DELTAS) and self._join(event):
                return
            self._on_full()
            while len(self._waiting) >= self._most:
                await self._change()
        self._waiting.append(_Joined(event) if isinstance(event, _DELTAS) else event)
        self._changed.set()

    def close(self) -> None:
        """Let `take` come to an end when nothing waits any more."""
        self._closed = True
        self._changed.set()

    async def take(self) -> Sequence[AssistantMessageEvent]:
        """Return what waits, as soon as there is something; nothing at the end."""
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
        """Join a piece to the last of its block, unless something other than a piece came since."""
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
    """Yield what an upstream says, which is read on while the events before are dealt with.

    `heard` is shown each batch as it comes.
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

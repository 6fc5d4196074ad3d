"""Limits on clients: streams, connections and time, by a clock that tests can turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from attrs import Factory, define, field

from swink_core.providers import Clock, LoopClock

__all__ = ["MOST_STREAMS", "Limits", "time_limit"]

PATIENCE_SECONDS = 60.0

MOST_STREAMS = 512

SILENT_CONNECTION_SECONDS = 100.0
"""Clients close what they keep for their next request earlier by themselves, after 90 s or less."""


@define(frozen=True)
class Limits:
    """Limits on the connections, streams and time of clients.

    `patience` is for how many seconds a client may read nothing, and in how many its body has to
    come; `streams` is how many answers are under way at a time; `coalesce` lets an upstream be read
    on while its client reads slowly. `connections` is about how many are open at a time (twice the
    streams: clients keep some for their next request), and `silence` for how many seconds one may
    be without the whole head of a request. `clock` is what signs of life and limits of what clients
    send go by.
    """

    patience: float = PATIENCE_SECONDS
    streams: int = MOST_STREAMS
    coalesce: bool = False
    connections: int = field(default=Factory(lambda self: 2 * self.streams, takes_self=True))
    silence: float = SILENT_CONNECTION_SECONDS
    clock: Clock = field(factory=LoopClock)


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Have the block end within so many seconds of `clock`, or raise TimeoutError out of it."""
    async with asyncio.timeout(None) as limit:
        cancel_timer = clock.call_at(clock.time() + seconds, lambda: limit.reschedule(0))
        try:
            yield
        finally:
            cancel_timer()

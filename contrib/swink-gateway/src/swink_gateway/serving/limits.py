"""Limits on clients: streams, connections and time, by a clock that tests can turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from attrs import Factory, define, evolve, field

from swink_core import Timeouts
from swink_core.providers import Clock, LoopClock

__all__ = [
    "MEMORY_BYTES",
    "MOST_STREAMS",
    "Limits",
    "stated_patience",
    "time_limit",
    "timeouts_within",
]

PATIENCE_SECONDS = 60.0

MOST_STREAMS = 512

MEMORY_BYTES = 256 * 1024 * 1024
"""Half of a container's 512 MiB: the rest is for the program, streams and kept conversations."""

SILENT_CONNECTION_SECONDS = 100.0
"""Clients close what they keep for their next request earlier by themselves, after 90 s or less."""


@define(frozen=True)
class Limits:
    """Limits on the connections, streams and time of clients.

    `patience` is for how many seconds a client may read nothing, and in how many its body has to
    come; `streams` is how many answers are under way at a time; `coalesce` lets an upstream be read
    on while its client reads slowly. `memory` is how many bytes requests may take together until
    they are answered, as estimated from their bodies. `connections` is about how many are open at a
    time (twice the streams: clients keep some for their next request), and `silence` for how many
    seconds one may be without the whole head of a request. `clock` is what signs of life and limits
    of what clients send go by.
    """

    patience: float = PATIENCE_SECONDS
    streams: int = MOST_STREAMS
    coalesce: bool = False
    memory: int = MEMORY_BYTES
    connections: int = field(default=Factory(lambda self: 2 * self.streams, takes_self=True))
    silence: float = SILENT_CONNECTION_SECONDS
    clock: Clock = field(factory=LoopClock)


PATIENCE_HEADERS = ("x-stainless-timeout", "x-stainless-read-timeout", "x-server-timeout")
"""The request headers in which the SDKs of OpenAI, Anthropic and Google state their time limit."""

EARLIER = 0.95
"""The part of a client's time limit after which the gateway ends a call, with a status."""


def stated_patience(headers: Mapping[str, str]) -> float | None:
    """Return the time limit of a client, in seconds; `None` if it states none."""
    for name in PATIENCE_HEADERS:
        with suppress(ValueError):
            seconds = float(headers.get(name, ""))
            if 0 < seconds < float("inf"):
                return seconds
    return None


def timeouts_within(patience: float, is_whole: bool) -> Timeouts:
    """Return limits that end a call earlier than its client, which waits for `patience` seconds.

    A client of a whole answer waits for all of it. Signs of life keep one of a stream waiting, so
    the gateway ends the call when the provider has been silent for as long.
    """
    usual, most = Timeouts(), EARLIER * patience
    if is_whole:
        return evolve(usual, total=most)
    return evolve(
        usual,
        first_event=min(usual.first_event or most, most),
        idle=min(usual.idle or most, most),
    )


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Have the block end within so many seconds of `clock`, or raise TimeoutError out of it."""
    async with asyncio.timeout(None) as limit:
        cancel_timer = clock.call_at(clock.time() + seconds, lambda: limit.reschedule(0))
        try:
            yield
        finally:
            cancel_timer()

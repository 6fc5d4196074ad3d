"""Limits on clients' connections, streams and time, with a clock that tests can replace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress

from attrs import Factory, define, evolve, field

from swink_core import Timeouts
from swink_core.providers import Clock, LoopClock
from swink_gateway.policy.cooldowns import ImpatientTimeouts

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
"""The default limit for the memory of requests, in bytes.

The default is half of the memory of a container with 512 MiB: the rest is for the program, streams
and stored conversations.
"""

SILENT_CONNECTION_SECONDS = 100.0
"""The default limit for idle connections, in seconds.

Clients keep idle connections for 90 s or less, so they close them before the gateway does.
"""


@define(frozen=True)
class Limits:
    """Limits on the connections, streams and time of clients.

    `patience` is how many seconds a client may go without reading, and how many it may take to send
    a body. `streams` is the limit for concurrent answers. With `coalesce`, the gateway continues to
    read from an upstream while the client reads slowly. `memory` is how many bytes all active
    requests may take together, estimated from their bodies. `connections` is the approximate limit
    for open connections (by default twice `streams`, because clients keep connections open for
    their next request). `silence` is how many seconds a connection may take to send the head of a
    request. `clock` measures keep-alives and the time limits for clients' input.
    """

    patience: float = PATIENCE_SECONDS
    streams: int = MOST_STREAMS
    coalesce: bool = False
    memory: int = MEMORY_BYTES
    connections: int = field(default=Factory(lambda self: 2 * self.streams, takes_self=True))
    silence: float = SILENT_CONNECTION_SECONDS
    clock: Clock = field(factory=LoopClock)


PATIENCE_HEADERS = ("x-stainless-timeout", "x-stainless-read-timeout", "x-server-timeout")
"""The request headers in which the SDKs of OpenAI, Anthropic and Google send their time limit."""

EARLIER = 0.95
"""The fraction of a client's time limit after which the gateway ends a call with an HTTP status."""


SHORT_SILENCE_SECONDS = 30.0
"""A timeout for a streaming client that waits fewer seconds does not count as a failed call."""


def stated_patience(headers: Mapping[str, str]) -> float | None:
    """Return the time limit of a client in seconds; `None` if it sends none."""
    for name in PATIENCE_HEADERS:
        with suppress(ValueError):
            seconds = float(headers.get(name, ""))
            if 0 < seconds < float("inf"):
                return seconds
    return None


def timeouts_within(patience: float, is_whole: bool) -> Timeouts:
    """Return time limits that end a call before its client gives up.

    The client waits `patience` seconds. If `is_whole` is true, it waits for the complete answer, so
    the limit applies to the whole call. A streaming client receives keep-alives, so the limit
    applies to each period in which the provider sends nothing.
    """
    usual: Timeouts = Timeouts()
    most = EARLIER * patience
    if most < (usual.first_event or most if is_whole else SHORT_SILENCE_SECONDS):
        usual = ImpatientTimeouts()
    if is_whole:
        return evolve(usual, total=most)
    return evolve(
        usual,
        first_event=min(usual.first_event or most, most),
        idle=min(usual.idle or most, most),
    )


@asynccontextmanager
async def time_limit(clock: Clock, seconds: float) -> AsyncIterator[Callable[[], None]]:
    """Limit a block to a number of seconds of `clock`; raises TimeoutError.

    Yields a function that ends the block at once.
    """
    async with asyncio.timeout(None) as limit:

        def end() -> None:
            with suppress(RuntimeError):  # the block has ended already
                limit.reschedule(0)

        cancel_timer = clock.call_at(clock.time() + seconds, end)
        try:
            yield end
        finally:
            cancel_timer()

"""How long a gateway serves: until SIGTERM or Ctrl-C, and then as long as its answers take.

The first signal drains; a second one ends everything at once, and no further one disturbs that.
Signals that come together, from a parent and from whoever ends a whole group of processes, are one.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field

from swink_gateway.serving.calls import ACTIVE
from swink_gateway.serving.server import Gateway
from swink_gateway.serving.workers import Worker

__all__ = ["DRAIN_SECONDS", "Shutdown", "serve_until_stopped"]

DRAIN_SECONDS = 60.0
"""For which answers may finish when the gateway is told to end."""

TOGETHER_SECONDS = 0.5

SIGNALLED = 128
"""What shells add to the number of the signal that ended a program."""


@define
class Shutdown:
    """What happens at the end: how long answers may finish (`drain`, seconds), and for how many
    seconds before new ones are still let in (`notice`), so that load balancers look elsewhere."""

    drain: float = DRAIN_SECONDS
    notice: float = 0.0
    say: Callable[[str], None] = lambda line: None
    """Is given a line for people who wait."""
    _told: asyncio.Event = field(factory=asyncio.Event)
    _told_at: float = 0.0

    def tell(self, number: int = signal.SIGINT) -> None:
        """Begin the end, or the second time, by the signal of this number, end at once."""
        loop = asyncio.get_running_loop()
        if not self._told.is_set():
            self._told.set()
            self._told_at = loop.time()
        elif loop.time() - self._told_at > TOGETHER_SECONDS:
            raise SystemExit(SIGNALLED + number)

    async def told(self) -> None:
        """Return when the end begins."""
        await self._told.wait()


async def serve_until_stopped(gateway: Gateway, shutdown: Shutdown, worker: Worker | None) -> None:
    """Serve until a signal comes, or the parent of a worker is gone; then drain."""
    loop = asyncio.get_running_loop()
    for name in _ENDING:
        with suppress(NotImplementedError):  # Windows; Ctrl-C cancels there
            loop.add_signal_handler(name, _heed, name, loop, shutdown)
    if worker is not None:
        loop.add_reader(worker.alive, _orphaned, loop, worker.alive, shutdown)
        worker.ready()
    await shutdown.told()
    if under_way := gateway.counters[ACTIVE]:
        answers = "1 answer" if under_way == 1 else f"{under_way} answers"
        shutdown.say(f"finishing {answers}; Ctrl-C again ends at once")
    await gateway.drain(shutdown.drain, shutdown.notice)


_ENDING = (signal.SIGTERM, signal.SIGINT)


def _heed(number: int, loop: asyncio.AbstractEventLoop, shutdown: Shutdown) -> None:
    try:
        shutdown.tell(number)
    except SystemExit:
        for name in _ENDING:
            loop.remove_signal_handler(name)
            signal.signal(name, signal.SIG_IGN)  # or it would break off what is put away now
        raise


def _orphaned(loop: asyncio.AbstractEventLoop, alive: int, shutdown: Shutdown) -> None:
    loop.remove_reader(alive)
    shutdown.tell()

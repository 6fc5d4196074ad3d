"""How long a gateway serves: until SIGTERM or Ctrl-C, and then as long as its answers take.

The first signal drains; a second one ends everything at once. Signals that come together, from a
parent and from whoever ends a whole group of processes, are one.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress

from attrs import define, field

from swink_gateway.server import Gateway
from swink_gateway.workers import Worker

__all__ = ["DRAIN_SECONDS", "Lifetime", "serve_until_told"]

DRAIN_SECONDS = 60.0
"""For which answers may finish when the gateway is told to end."""

TOGETHER_SECONDS = 0.5


@define
class Lifetime:
    """What happens at the end: how long answers may finish (`drain`, seconds), and for how many
    seconds before new ones are still let in (`notice`), so that load balancers look elsewhere."""

    drain: float = DRAIN_SECONDS
    notice: float = 0.0
    _told: asyncio.Event = field(factory=asyncio.Event)
    _told_at: float = 0.0

    def tell(self) -> None:
        """Begin the end; the second time, end at once."""
        loop = asyncio.get_running_loop()
        if not self._told.is_set():
            self._told.set()
            self._told_at = loop.time()
        elif loop.time() - self._told_at > TOGETHER_SECONDS:
            raise SystemExit(1)

    async def told(self) -> None:
        """Return when the end begins."""
        await self._told.wait()


async def serve_until_told(gateway: Gateway, lifetime: Lifetime, worker: Worker | None) -> None:
    """Serve until a signal comes, or the parent of a worker is gone; then drain."""
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # Windows; Ctrl-C cancels there
            loop.add_signal_handler(name, lifetime.tell)
    if worker is not None:
        loop.add_reader(worker.alive, _orphaned, loop, worker.alive, lifetime)
        worker.ready()
    await lifetime.told()
    await gateway.drain(lifetime.drain, lifetime.notice)


def _orphaned(loop: asyncio.AbstractEventLoop, alive: int, lifetime: Lifetime) -> None:
    loop.remove_reader(alive)
    lifetime.tell()

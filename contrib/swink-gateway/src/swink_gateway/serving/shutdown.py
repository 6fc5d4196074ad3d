"""Graceful shutdown: serve until SIGTERM or Ctrl-C, then let active answers finish.

The first signal starts the shutdown, a second signal stops the gateway at once, and later signals
are ignored.
Signals that arrive together, from a parent and from the terminal's process group, count as one.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress

from attrs import define, field

from swink_gateway.serving.admission import ACTIVE
from swink_gateway.serving.server import Gateway
from swink_gateway.serving.workers import ENDING, TOGETHER_SECONDS, Worker

__all__ = ["DRAIN_SECONDS", "Shutdown", "serve_until_stopped"]

DRAIN_SECONDS = 60.0
"""How many seconds active answers may take after the first signal."""

SIGNALLED = 128
"""The exit code after a signal is this number plus the signal's number, as in shells."""


@define
class Shutdown:
    """The shutdown of a gateway.

    After the first signal, new requests are still accepted for `notice` seconds, so that load
    balancers can react. After that, active answers may take `drain` seconds.
    """

    drain: float = DRAIN_SECONDS
    notice: float = 0.0
    say: Callable[[str], None] = lambda line: None
    """Called with each message about the progress of the shutdown, for the operator."""
    _told: asyncio.Event = field(factory=asyncio.Event)
    _told_at: float = 0.0

    def tell(self, number: int = signal.SIGINT) -> None:
        """Start the shutdown; a second call exits at once, with this signal's exit code."""
        loop = asyncio.get_running_loop()
        if not self._told.is_set():
            self._told.set()
            self._told_at = loop.time()
        elif loop.time() - self._told_at > TOGETHER_SECONDS:
            raise SystemExit(SIGNALLED + number)

    async def told(self) -> None:
        """Wait until the shutdown starts."""
        await self._told.wait()


async def serve_until_stopped(gateway: Gateway, shutdown: Shutdown, worker: Worker | None) -> None:
    """Serve until a signal arrives or the parent of a worker has died; then shut down."""
    loop = asyncio.get_running_loop()
    for name in ENDING:
        with suppress(NotImplementedError):  # on Windows, Ctrl-C cancels the task
            loop.add_signal_handler(name, _heed, name, loop, shutdown)
    if worker is not None:
        loop.add_reader(worker.alive, _orphaned, loop, worker.alive, shutdown)
        worker.ready()
    await shutdown.told()
    if under_way := gateway.counters[ACTIVE]:
        answers = "1 answer" if under_way == 1 else f"{under_way} answers"
        shutdown.say(f"waiting for {answers}; press Ctrl-C again to stop at once")
    await gateway.drain(shutdown.drain, shutdown.notice)


def _heed(number: int, loop: asyncio.AbstractEventLoop, shutdown: Shutdown) -> None:
    try:
        shutdown.tell(number)
    except SystemExit:
        for name in ENDING:
            loop.remove_signal_handler(name)
            signal.signal(name, signal.SIG_IGN)  # a signal would interrupt the cleanup
        raise


def _orphaned(loop: asyncio.AbstractEventLoop, alive: int, shutdown: Shutdown) -> None:
    loop.remove_reader(alive)
    shutdown.tell()

"""An event loop in a separate thread, for synchronous callers."""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from swink.mistakes import shortened
from swink_core import SwinkError, UsageError

if TYPE_CHECKING:
    from swink.client import Client

__all__ = ["BackgroundLoop", "background_loop"]

log = logging.getLogger(__name__)

T = TypeVar("T")

JOIN_SECONDS = 5.0


class BackgroundLoop:
    """An event loop that runs in a daemon thread until the program ends."""

    def __init__(self) -> None:
        self.clients: WeakSet[Client] = WeakSet()
        """The clients to close when the program ends."""
        self._closing: set[Future[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="swink", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            # Raised by a task; its waiter gets the exception.
            with suppress(KeyboardInterrupt, SystemExit):
                self._loop.run_forever()
                return

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs; after a fork, the child has no thread."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, wait for it and return its result, or raise its exception.

        Raises UsageError if it is called in the loop's own thread, where waiting would deadlock. If
        the waiting thread is interrupted, for example by Ctrl-C, the coroutine is cancelled.
        """
        if threading.current_thread() is self._thread:
            work.close()
            raise UsageError(
                "a synchronous client was used inside its own event loop",
                resolution="Use Client and await in async tools and callbacks.",
            )
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except SwinkError as error:
            raised = shortened(error)
        except BaseException:
            future.cancel()
            raise
        raise raised

    def drop(self, client: Client) -> None:
        """Schedule the closing of a client that is no longer referenced, and return at once."""
        if self._thread.is_alive():
            closing = asyncio.run_coroutine_threadsafe(client.aclose(), self._loop)
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def stop(self) -> None:
        """Stop the loop and its thread."""
        if not self._thread.is_alive():
            return
        for client in [*self.clients]:
            try:
                self.run(client.aclose())
            except Exception:
                log.warning("a client could not be closed", exc_info=True)
        wait([*self._closing], JOIN_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(JOIN_SECONDS)
        if not self._thread.is_alive():
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()


_lock = threading.Lock()
_current: BackgroundLoop | None = None


def background_loop() -> BackgroundLoop:
    """Return the loop that all synchronous clients of the process share."""
    global _current
    with _lock:
        if _current is None or not _current.is_alive:
            _current = BackgroundLoop()
            atexit.register(_current.stop)
        return _current


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread may have held the old lock at the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""A lock on a file that is being created, between threads and processes."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Stopped", "locked"]

LOCK_SECONDS = 0.2
"""Seconds between two attempts to acquire a lock that another process holds."""


class Stopped(Exception):
    """Raised while waiting for a lock that the caller no longer needs."""


@contextmanager
def locked(path: Path, waiting: Callable[[], object], stopped: threading.Event) -> Iterator[None]:
    """Acquire the lock for downloading a file, and release it at the end of the context.

    While another thread or process has the lock, call `waiting` and retry. Raises Stopped if
    `stopped` is set.
    """
    with path.with_name(f"{path.name}.lock").open("a+b") as lock:
        while not _try_lock(lock.fileno()):
            waiting()
            if stopped.wait(LOCK_SECONDS):
                raise Stopped
        yield  # closing the file releases the lock


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        with suppress(OSError):
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            return True
        return False
else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

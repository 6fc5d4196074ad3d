"""How long something holds the thread, which is how long it would hold an event loop."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

FREEZE = 0.1
"""Seconds of processor time that 256 KB of anything a server sends may take."""

HOSTILE_SIZE = 256 * 1024


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the processor time of this thread that `work` takes, the best of three times.

    The collector's is left out: it depends on what came before.
    """
    gc.disable()
    try:
        return min(_once(work) for _ in range(3))
    finally:
        gc.enable()


def _once(work: Callable[[], object]) -> float:
    begun = time.thread_time()
    work()
    return time.thread_time() - begun

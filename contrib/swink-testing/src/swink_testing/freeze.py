"""How long something holds the thread, which is how long it would hold an event loop.

Times are the processor time of the thread, so that a busy machine changes nothing.

    assert cpu_seconds(lambda: parse(hostile)) < FREEZE
    assert growth(lambda size: lambda: parse(b"x" * size), 1000, 8000) < 30
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable

from swink_core.providers import EventWriter, Parser

__all__ = ["FREEZE", "HOSTILE_SIZE", "LINEAR", "cpu_seconds", "growth", "parsing"]

FREEZE = 0.1
"""Seconds that `HOSTILE_SIZE` of anything a server sends may take in one go."""

HOSTILE_SIZE = 256 * 1024

TIMES = 8

LINEAR = 30.0
"""What `growth` stays below for work that is linear, which takes eight times as long, give or
take; work that is quadratic takes sixty-four times."""


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the time that `work` takes, the best of three.

    The garbage collector's is left out: it depends on what came before.
    """
    return min(_once(work) for _ in range(3))


def growth(make: Callable[[int], Callable[[], object]], size: int, times: int = TIMES) -> float:
    """Return how many times as long the work that `make` makes of `size` takes at `times` it."""
    return cpu_seconds(make(times * size)) / cpu_seconds(make(size))


def parsing(
    parser: Callable[[], Parser], frames: Callable[[int], Iterable[bytes]]
) -> Callable[[int], Callable[[], object]]:
    """Return the work of reading as many frames as it is asked for, for `growth`."""

    def of_size(size: int) -> Callable[[], object]:
        made = list(frames(size))

        def work() -> None:
            feed, out = parser().feed, EventWriter()
            for frame in made:
                feed(frame, out)

        return work

    return of_size


def _once(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        begun = time.thread_time()
        work()
        return time.thread_time() - begun
    finally:
        gc.enable()

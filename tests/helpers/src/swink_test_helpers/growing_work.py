"""Measures how the work for an answer grows with its size.

assert growth(lambda size: lambda: parse(b"x" * size), 1000) < LINEAR
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any

import msgspec

from swink_core.providers import EventWriter, Parser
from swink_testing.conformance import Subject
from swink_testing.freeze import CONTENT, HOSTILE_SIZE, cpu_seconds, large_frames, step_seconds
from swink_testing.oversized_json import NESTING, inflated

__all__ = ["LINEAR", "PER_BYTE", "by_parser", "growing_frames", "growth", "parsing"]

TIMES = 8

LINEAR = 30.0
"""What `growth` stays below for work that is linear, which takes eight times as long, give or
take; work that is quadratic takes sixty-four times."""


PER_BYTE = 1.5
"""How many times as much a byte of a frame of 8 MB may cost as one of a frame of 0.1 MB."""

_RUNS = 3
"""The number of runs of work whose time is to be known, whether it is short or not."""


def growth(make: Callable[[int], Callable[[], object]], size: int) -> float:
    """Return the ratio of the durations of `make`'s work at `TIMES * size` and at `size`."""
    larger, smaller = (cpu_seconds(make(n), 0.0, _RUNS) for n in (TIMES * size, size))
    return larger / smaller


def parsing(
    parser: Callable[[], Parser], frames: Callable[[int], Iterable[bytes]]
) -> Callable[[int], Callable[[], object]]:
    """Return a function that makes the work of reading many frames, for `growth`."""

    def of_size(size: int) -> Callable[[], object]:
        made = list(frames(size))

        def work() -> None:
            feed, out = parser().feed, EventWriter()
            for frame in made:
                feed(frame, out)

        return work

    return of_size


def by_parser(subjects: Iterable[Subject]) -> list[list[Subject]]:
    """Put those together whose answers are read by the same parser, in the same state."""
    groups: dict[Any, list[Subject]] = {}
    for subject in subjects:
        if subject.parses:
            parser = subject.provider.parser(subject.model)
            state = (type(value) for value in getattr(parser, "__dict__", {}).values())
            groups.setdefault((type(parser), *state), []).append(subject)
    return list(groups.values())


_GROWTH = (250_000, 4_000_000)

GROWS = 8.0
"""How many times as much a byte of the larger frame may cost. Linear work leaves the processor's
caches and costs up to three times as much; quadratic work costs sixteen times as much."""


def growing_frames(subjects: Iterable[Subject], most: int = 2) -> Iterator[str]:
    """Yield which of the dearest frames cost more by the byte as they grow from 0.25 to 4 MB."""
    every = large_frames(subjects, HOSTILE_SIZE // 16)
    found = [place for place in every if not place[0].endswith(NESTING)]
    found.sort(key=lambda place: -step_seconds(place[1], place[2], place[3], inf))
    for where, answer, at, _ in found[:most]:
        data = msgspec.json.decode(answer.frames[at])
        way = where.split(", ", 2)[2]
        frames = (frame for size in _GROWTH for _, frame in inflated(data, size, CONTENT, {way}))
        small, large = frames
        of_a_byte = step_seconds(answer, at, small, 0.0, _RUNS) / len(small)
        enough = GROWS * of_a_byte * len(large)  # one run that is as fast decides it
        seconds = step_seconds(answer, at, large, enough)
        if seconds > enough:
            times = GROWS * seconds / enough
            yield f"{where} costs {times:.1f} times as much by the byte"

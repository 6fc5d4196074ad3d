"""Memory that answers leave behind."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from swink_recorder.recording import Recording
from swink_testing.conformance.check import DoesNotApply, require
from swink_testing.conformance.subject import Subject
from swink_testing.quiet import quiet

__all__ = ["check_answers_leave_nothing"]

_WARM = 3
"""Answers that are read before anything is counted: what is made once is made then."""

_BYTES = 20_000
"""Bytes of answers that are read in all, while what is kept is counted; twice as many at most."""


def check_answers_leave_nothing(subject: Subject) -> None:
    """Of answers that were read nothing is kept: memory does not grow with each of them."""
    fitting = [r for r in subject.answers() if 0 < len(r.body) <= _BYTES]
    if not fitting:
        raise DoesNotApply("no recorded answer is small enough to be read many times")
    recording = max(fitting, key=lambda recording: len(recording.body))
    times = -(-_BYTES // len(recording.body))
    already = tracemalloc.is_tracing()
    if not already:
        tracemalloc.start()
    try:
        asyncio.run(_read(subject, recording, _WARM))
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        asyncio.run(_read(subject, recording, times))
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        if not already:
            tracemalloc.stop()
    read = times * len(recording.body)
    require(
        after - before < read,
        f"recording {recording.name}: {after - before} bytes are kept of {times} answers, which "
        f"had {read}",
    )


async def _read(subject: Subject, recording: Recording, times: int) -> None:
    with quiet():  # whoever looks at the log keeps it
        for _ in range(times):
            async for _event in subject.recorded_events(recording):
                pass

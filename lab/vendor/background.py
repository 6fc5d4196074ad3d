"""Answers that are produced whether or not anybody listens, and can be followed later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from lab.vendor.engine import Job
from lab.vendor.record import Ended

__all__ = ["Background"]


class Background:
    """One answer in the background: its frames so far. `cancel` ends it."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.frames: list[bytes] = []
        self.ended = False
        self._cancelled = False
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def cancel(self) -> None:
        """Stop production at the next token."""
        self._cancelled = not self.ended

    @property
    def is_cancelled(self) -> bool:
        """Tell whether the answer was cancelled before it was complete."""
        return self._cancelled

    async def follow(self, after: int = 0) -> AsyncIterator[bytes]:
        """Yield the frames after the first `after`, those that are still to come included."""
        at = after
        while True:
            while at < len(self.frames):
                yield self.frames[at]
                at += 1
            if self.ended:
                return
            await self._changed.wait()

    async def _run(self) -> None:
        job = self.job
        state = job.state
        fault = job.fault
        self._add(job.begin())
        began = state.clock.now() + state.first_token
        for step in job.steps():
            if step.kind == "delta":
                rate = state.tokens_per_second
                due = began + ((job.usage.output + step.tokens) / rate if rate else 0.0)
                await state.clock.sleep(max(due - state.clock.now(), 0.0))
                failure = None if fault is None else fault.failure
                place = 0 if fault is None or not isinstance(fault.after, int) else fault.after
                if failure is not None and job.usage.output >= place:
                    self._add(job.encoder.broken(failure))
                    self._end("failed")
                    return
            if self._cancelled:
                self._end("cancelled")
                return
            job.produce(step)
            self._add(job.encoder.step(step, job.usage))
        self._add(job.encoder.finish(job.usage))
        self._end("complete")

    def _add(self, frames: bytes) -> None:
        parts = frames.split(b"\n\n")
        self.frames += [part + b"\n\n" for part in parts if part]
        self._tell()

    def _end(self, how: Ended) -> None:
        self.ended = True
        self.job.exchange.ended = how
        self.job.exchange.until = self.job.state.clock.now()
        self._tell()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

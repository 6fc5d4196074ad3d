"""The time limits of a call (first event, idle between reads, total), and its interruption.

While the stream waits for its source, this module stores the waiting task. `interrupt` stores a
reason and cancels that task. The stream catches this CancelledError, calls `uncancel`, and ends
with an error for the reason. If other code cancels the task, CancelledError is raised as usual. One
timer serves all limits of a call and is set again only when it fires, so that a read takes little
time.

The total limits, of the call and of a model, include the time that the caller spends between two
waits. All other limits do not: they are measured in waiting time, which is the clock's time minus
the time that the caller has spent so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import Literal

from swink_core.failures.failure import Failure, Phase
from swink_core.providers.source import Source
from swink_core.vocabulary.clock import Clock
from swink_core.vocabulary.options import Timeouts
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

Stage = Literal["between", "begun", "first_event", "streaming"]
"""The state of the current attempt.

`between`: no attempt is running. `begun`: the attempt has begun, but has not waited for its source
yet. `first_event`: it waits for its first event. `streaming`: its first event has arrived.
"""


class Watchdog:
    """Applies the time limits of one call. `reason` says why the current wait was interrupted.

    `limits` are those of the first target. Until the first attempt begins, only their total limit
    applies. `limit_model` sets the total limit of a model's own options.
    """

    def __init__(self, clock: Clock, limits: Timeouts) -> None:
        self.clock = clock
        self.limits = limits
        self.reason: Failure | None = None
        self.waiting: asyncio.Task[object] | None = None
        self._call_started: float | None = None
        self._left = 0.0  # when the last wait ended
        self._away = 0.0  # the time that the consumer has used so far
        self._stage: Stage = "between"
        self._fired_unheard = False  # the timer fired while no wait was in progress
        self._settle: float | None = None
        # The end of the total limit of the model's own options, and the limit in seconds.
        self._of_model: tuple[float, float] | None = None
        self._cancel_timer: Callable[[], None] | None = None

    def begin_attempt(self, limits: Timeouts, source: Source) -> None:
        """Apply the time limits of a new attempt, beginning with the next wait for `source`."""
        self.limits = limits
        self._source = source
        self._window_chars = 0
        self._stage = "begun"

    def limit_model(self, ends_at: float, seconds: float) -> None:
        """Apply the total limit of a model, which ends at this time, to the attempt that begins."""
        self._of_model = ends_at, seconds

    def end_attempt(self) -> None:
        """Apply only the total limit of the call until the next attempt begins."""
        self._stage = "between"
        self._settle = None
        self._of_model = None

    def wait(self) -> None:
        """Record that the current task waits for the source from now on."""
        task = asyncio.current_task()
        self.waiting = task
        self._cancelling = task.cancelling() if task is not None else 0
        now = self.clock.time()
        if self._call_started is None:
            self._call_started = now
            self._left = now
            self._fired_unheard = bool(self.limits.total)  # sets the timer below
        self._away += now - self._left
        self._since = now - self._away
        if self._stage == "begun":
            self._stage = "first_event"
            self._attempt_started = self._since
            self._progress = self._since
            self._arm()
        elif self._fired_unheard:
            self._arm()

    def back(self, has_events: bool) -> bool:
        """Record that the wait is over; `has_events` says whether events arrived.

        Return True if the task was cancelled during the wait, by this object or by other code, even
        if a plugin caught CancelledError and did not raise it again.
        """
        task = self.waiting
        self.waiting = None
        self._left = self.clock.time()
        if has_events:
            self._progress = self._left - self._away
            if self._stage != "streaming":  # the wait for the first event has a separate limit
                self._stage = "streaming"
                self._window_began = self._progress
        return self.reason is not None or (
            task is not None and task.cancelling() > self._cancelling
        )

    def expect_end(self, seconds: float) -> None:
        """End the attempt after `seconds`. Only the first call during an attempt has an effect."""
        if self._settle is None:
            self._settle = self.clock.time() - self._away + seconds
            self._arm()

    def interrupt(self, reason: Failure) -> None:
        """Cancel the task that waits for the source, if there is one, and store the reason."""
        if self.waiting is not None and self.reason is None:
            self.reason = reason
            self.waiting.cancel()

    def recover(self) -> Failure | None:
        """If this object cancelled the current task, undo the cancellation and return the reason.

        Return `None` if other code cancelled the task.
        """
        reason = self.reason
        task = asyncio.current_task()
        if reason is None or task is None:
            return None
        self.reason = None
        # another cancellation arrived as well, and takes precedence
        return reason if task.uncancel() <= self._cancelling else None

    def stop(self) -> None:
        """Stop the timer immediately."""
        self.waiting = None
        self._disarm()

    def _disarm(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None

    def _deadlines(self) -> list[tuple[float, str, Phase, float]]:
        limits = self.limits
        away = self._away
        rows: list[tuple[float | None, float, str, Phase]] = []
        if limits.total:
            rows.append((limits.total, (self._call_started or 0.0) - away, "total", "streaming"))
        if self._stage == "first_event":
            rows.append((limits.first_event, self._attempt_started, "first_event", "first_event"))
        elif self._stage == "streaming":
            rows.append((limits.idle, self._since, "idle", "streaming"))
            rows.append((limits.no_progress, self._progress, "no_progress", "streaming"))
            if limits.min_chars_per_second is not None:
                rows.append((limits.window, self._window_began, "throughput", "streaming"))
        due = [(away + at + limit, code, phase, limit) for limit, at, code, phase in rows if limit]
        if self._settle is not None:
            due.append((away + self._settle, "settle", "finalize", 0.0))
        if self._of_model is not None:
            ends_at, seconds = self._of_model
            due.append((ends_at, "total_of_model", "streaming", seconds))
        return due

    def _arm(self) -> None:
        """Set the timer to the earliest time at which any limit could be exceeded."""
        self._disarm()
        self._fired_unheard = False
        limits = self.limits
        now = self.clock.time()
        floor = None if limits.min_chars_per_second is None else limits.window
        lengths = (limits.first_event, limits.idle, limits.no_progress, limits.total, floor)
        moment = now + min(filter(None, lengths), default=inf)
        for due in self._deadlines():
            moment = min(moment, max(due[0], now))
        if moment < inf:
            self._cancel_timer = self.clock.call_at(moment, self._fire)

    def _fire(self) -> None:
        self._cancel_timer = None
        if self.waiting is None:  # the consumer is busy
            self._fired_unheard = True
            return
        now = self.clock.time()
        for when, code, phase, limit in sorted(self._deadlines()):
            if when <= now + 1e-3 and (code != "throughput" or self._too_slow()):
                self.interrupt(_timeout(code, phase, limit, self.limits))
                return
        self._arm()

    def _too_slow(self) -> bool:
        chars = self._source.kept + self._source.discarded
        floor = self.limits.min_chars_per_second or 0.0
        got = chars - self._window_chars
        self._window_chars = chars
        self._window_began = self.clock.time() - self._away
        return got < floor * self.limits.window


def _timeout(code: str, phase: Phase, limit: float, limits: Timeouts) -> Failure:
    what = {
        "total": f"the call took longer than {limit:g} s",
        "total_of_model": f"the model took longer than {limit:g} s",
        "first_event": f"no event within {limit:g} s",
        "idle": f"nothing was received for {limit:g} s",
        "no_progress": f"only keep-alives were received for {limit:g} s",
        "settle": "the answer is complete, but the connection is still open",
        "throughput": f"fewer than {limits.min_chars_per_second or 0:g} characters/s were "
        f"received over {limit:g} s",
    }[code]
    return Failure(phase, kind=Kind.TIMEOUT, code=code, message=what)

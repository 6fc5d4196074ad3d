"""Decides whether a failed attempt is retried, on which model, and after which wait.

A call is retried only if no output was delivered, or if the caller allowed a restart after output.
The first retries use the same target (a model with its options), as often as the kind of failure
and the retry policy allow; then the next target of the chain is tried. This module does no I/O.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence

from swink_core.failures.kinds import KINDS, STALE, most_retries
from swink_core.plugins.binding import Target
from swink_core.plugins.call import Call
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.options import RetryPolicy
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

FINAL = "total"
"""The error code if the time limit for the whole call was exceeded; no retry is possible then."""


def is_retryable(error: ev.Error) -> bool:
    """Return True if the same call may succeed later, regardless of the retry policy."""
    return KINDS[error.error_kind or Kind.UNKNOWN].retries > 0 and most_retries(error.code) != 0


class Retries:
    """Decides about the retries of one call.

    `target` is the target of the next attempt, and `delay` the number of seconds to wait before
    this attempt. Retries are counted for each kind of failure and target.
    """

    def __init__(self, call: Call, targets: Sequence[Target]) -> None:
        self._coming = iter(targets)
        self.target = next(self._coming)
        self.delay = 0.0
        self._notices: list[ev.Notice] = []
        self._call = call
        self._retries = defaultdict[Kind, int](int)
        self._made = 1
        self._waited = 0.0
        self._stale = False
        self._ends_at: float | None = None  # the total limit of the target's own options
        self._waits: dict[Kind, Iterator[float | None]] = {}

    def begin(self, seconds: float) -> float:
        """Return when the time of the target ends: `seconds` after its first attempt has begun."""
        if self._ends_at is None:
            self._ends_at = self._call.clock.time() + seconds
        return self._ends_at

    def ended(self, terminal: ev.Done | ev.Error, seen: bool) -> ev.Done | ev.Error | ev.Retry:
        """Return the event to deliver at the end of an attempt.

        This is a `Retry` event or, if the call ends, `terminal`. `seen` says whether the caller has
        received output.
        """
        if isinstance(terminal, ev.Done) or terminal.stop_reason != "error":
            return terminal
        if seen and not (self._policy.restart_after_output and self._call.may_restart):
            return terminal
        return self.after(terminal) or terminal

    def after(self, error: ev.Error) -> ev.Retry | None:
        """Return the `Retry` event after a failed attempt, or `None` if the failure is final."""
        if error.code == FINAL:
            return None
        kind = error.error_kind or Kind.UNKNOWN
        falls_back = KINDS[kind].falls_back or kind in self._policy.fall_back_on
        return self._again(error) or (self._on_next_target(error) if falls_back else None)

    def pass_over(self, why: str) -> None:
        """Skip the current target, which a gate refused, and continue with the next target."""
        self._notices.append(ev.Notice("target_passed_over", f"{self.target.model}: {why}"))
        self._move_on()

    def take_notices(self) -> list[ev.Notice]:
        """Return the notices about targets that were skipped since the last call of this method."""
        notices = self._notices
        self._notices = []
        return notices

    def _again(self, error: ev.Error) -> ev.Retry | None:
        kind = error.error_kind or Kind.UNKNOWN
        policy = self._policy
        allowed = policy.retries.get(kind, KINDS[kind].retries)
        most = most_retries(error.code)
        left = (allowed if most is None else min(allowed, most)) - self._retries[kind]
        if error.code == STALE and not self._stale:
            self._stale = True  # not the provider's fault, so it does not count
            return self._retry(error, self._made, self._made + left)
        too_long = (error.retry_after or 0.0) > policy.retry_after_cap
        if left <= 0 or too_long:
            return None
        delay = self._backoff(kind, policy) if error.retry_after is None else error.retry_after
        if self._waited + delay > policy.budget:
            return None
        if self._ends_at is not None and self._call.clock.time() + delay >= self._ends_at:
            return None
        self._retries[kind] += 1
        self._made += 1
        self._waited += delay
        return self._retry(error, self._made, self._made + left - 1, delay)

    def _on_next_target(self, error: ev.Error) -> ev.Retry | None:
        if self.target.is_last:
            return None
        self._move_on()
        most = 1 + max(self._policy.retries.get(kind, row.retries) for kind, row in KINDS.items())
        return self._retry(error, 1, most)

    def _move_on(self) -> None:
        self.target = next(self._coming)
        self._retries.clear()
        self._waits.clear()
        self._made = 1
        self._stale = False
        self._ends_at = None

    @property
    def _policy(self) -> RetryPolicy:
        return self.target.options.retry

    def _backoff(self, kind: Kind, policy: RetryPolicy) -> float:
        try:
            import backoff
        except OSError:  # out of file descriptors, which an import needs too
            return policy.base
        if kind not in self._waits:
            self._waits[kind] = backoff.expo(policy.factor, policy.base, policy.max_delay)
            next(self._waits[kind])  # its first value only primes the generator
        return float(backoff.full_jitter(next(self._waits[kind]) or 0.0))

    def _retry(self, error: ev.Error, number: int, most: int, delay: float = 0.0) -> ev.Retry:
        self.delay = delay
        call = self._call
        model = str(self.target.model)
        kind = error.error_kind
        why = error.error_message
        log.warning(
            "call %s: %s failed (%s: %s); attempt %d/%d on %s in %.2f s",
            call.id, call.model, kind, why, number, most, model, delay,
        )  # fmt: skip
        return ev.Retry(number, most, delay, why, model, kind, error.code)

"""When a failed attempt is made again, where, and after what wait.

`RetryPlan` decides, without I/O; `attempts` is the loop that does what it says. A call is made
again as long as nobody has seen output, or where the caller allowed a restart.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from swink_core import events as ev
from swink_core.call import Call
from swink_core.model import RetryPolicy
from swink_core.outcome import StreamErrorKind as Kind

__all__ = ["Next", "RetryPlan", "attempts"]

log = logging.getLogger(__name__)

FALLS_BACK = frozenset(
    {
        Kind.THROTTLED, Kind.OVERLOADED, Kind.NETWORK, Kind.EMPTY_RESPONSE, Kind.TIMEOUT,
        Kind.QUOTA_EXHAUSTED, Kind.MODEL_NOT_FOUND, Kind.UNSUPPORTED, Kind.RESOURCE,
    }
)  # fmt: skip
"""Kinds after which the next model of a chain is tried."""

UNREACHABLE = ("core:connection_refused", "core:dns")
"""Rules of failures where one more try is enough before falling back."""

NEXT_TARGET_DELAY = 0.0


class Next(NamedTuple):
    """The next attempt: which target, its number there, out of how many, after what wait."""

    target: int
    attempt: int
    max_attempts: int
    delay: float


class RetryPlan:
    """Counts retries per kind on each target, and the waits of the whole call."""

    def __init__(self, policies: Sequence[RetryPolicy]) -> None:
        self._policies = policies
        self._target = 0
        self._retries: Counter[Kind] = Counter()
        self._made = 1
        self._waited = 0.0
        self._waits: dict[Kind, Iterator[float | None]] = {}

    def after(self, error: ev.Error) -> Next | None:
        """This will return what follows a failed attempt; `None` if the failure is final."""
        kind = error.error_kind or Kind.UNKNOWN
        policy = self._policies[self._target]
        allowed = policy.retries.get(kind, 0)
        if error.rule in UNREACHABLE or (kind is Kind.TIMEOUT and error.phase == "first_event"):
            allowed = min(allowed, 1)
        final = error.rule == "core:total" or (error.retry_after or 0.0) > policy.retry_after_cap
        if not final and self._retries[kind] < allowed:
            delay = error.retry_after
            if delay is None:
                delay = self._backoff(kind, policy)
            if self._waited + delay <= policy.budget:
                self._retries[kind] += 1
                self._made += 1
                self._waited += delay
                return Next(
                    self._target, self._made, self._made + allowed - self._retries[kind], delay
                )
        if error.rule == "core:total" or kind not in FALLS_BACK:
            return None
        if self._target + 1 >= len(self._policies):
            return None
        self._target += 1
        self._retries.clear()
        self._waits.clear()
        self._made = 1
        most = 1 + max(self._policies[self._target].retries.values(), default=0)
        return Next(self._target, 1, most, NEXT_TARGET_DELAY)

    def _backoff(self, kind: Kind, policy: RetryPolicy) -> float:
        import backoff

        waits = self._waits.get(kind)
        if waits is None:
            waits = self._waits[kind] = backoff.expo(
                base=policy.factor, factor=policy.base, max_value=policy.max_delay
            )
            waits.send(None)  # its first value only primes the generator
        return float(backoff.full_jitter(next(waits) or 0.0))


_CONTENT = (ev.TextStart, ev.ThinkingStart, ev.ToolCallStart, ev.Extension)


async def attempts(
    call: Call,
    targets: Sequence[str],
    plan: RetryPlan,
    policies: Sequence[RetryPolicy],
    open_attempt: Callable[[int], AsyncGenerator[list[ev.AssistantMessageEvent], None]],
    unseen: Callable[[], bool],
) -> AsyncGenerator[list[ev.AssistantMessageEvent], None]:
    """This will yield the batches of one attempt after another until one is final.

    `open_attempt(n)` makes the attempt on target n; `unseen()` tells whether nothing is handed
    out before the end, so that output does not count as seen.
    """
    target = 0
    while True:
        call.attempt += 1
        seen = False
        upcoming: Next | None = None
        async with aclosing(open_attempt(target)) as batches:
            async for batch in batches:
                if batch:
                    last = batch[-1]
                    if not seen:
                        seen = any(type(event) in _CONTENT for event in batch)
                    if type(last) is ev.Error and last.stop_reason == "error":
                        may = not seen or policies[target].restart_after_output or unseen()
                        upcoming = plan.after(last) if may else None
                        if upcoming is not None:
                            batch[-1] = _retry(last, upcoming, targets)
                            _log_retry(call, last, upcoming, targets)
                yield batch
        if upcoming is None:
            return
        target = upcoming.target
        if upcoming.delay > 0:
            await call.clock.sleep(upcoming.delay)


def _retry(error: ev.Error, upcoming: Next, targets: Sequence[str]) -> ev.Retry:
    return ev.Retry(
        upcoming.attempt,
        upcoming.max_attempts,
        upcoming.delay,
        error.error_message,
        targets[upcoming.target],
        error.error_kind,
    )


def _log_retry(call: Call, error: ev.Error, upcoming: Next, targets: Sequence[str]) -> None:
    log.warning(
        "call %s: %s failed (%s: %s); attempt %d/%d on %s in %.2f s",
        call.id,
        call.model,
        error.error_kind,
        error.error_message,
        upcoming.attempt,
        upcoming.max_attempts,
        targets[upcoming.target],
        upcoming.delay,
    )

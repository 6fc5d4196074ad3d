"""When a failed attempt is made again, where, and after what wait.

`RetryPlan` decides, without I/O; `attempts` is the loop that does what it says. A call is made
again as long as nobody has seen output, or where the caller allowed a restart.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from attrs import define

from swink_core import events as ev
from swink_core.call import Call
from swink_core.circuit import Circuits
from swink_core.host import Binding
from swink_core.model import Model, ProviderInfo, RetryPolicy, StreamOptions
from swink_core.outcome import StreamErrorKind as Kind

__all__ = ["CONTENT", "Next", "RetryPlan", "Target", "attempts"]

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

_RESTS = FALLS_BACK - {Kind.UNSUPPORTED, Kind.MODEL_NOT_FOUND}


@define
class Target:
    """One model of a fallback chain, ready to be called. `key` is what it fails as."""

    model: Model
    options: StreamOptions
    binding: Binding
    info: ProviderInfo | None

    @property
    def key(self) -> Hashable:
        """Failures of a model at one address say nothing of the same model at another."""
        return self.model, self.options.base_url


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
        self._stale = False
        self._waits: dict[Kind, Iterator[float | None]] = {}

    def after(self, error: ev.Error) -> Next | None:
        """This will return what follows a failed attempt; `None` if the failure is final."""
        kind = error.error_kind or Kind.UNKNOWN
        policy = self._policies[self._target]
        allowed = policy.retries.get(kind, 0)
        if error.rule in UNREACHABLE or (kind is Kind.TIMEOUT and error.phase == "first_event"):
            allowed = min(allowed, 1)
        if error.rule == "core:stale" and not self._stale:
            self._stale = True  # not the provider's fault, so it does not count
            return Next(self._target, self._made, self._made + allowed, 0.0)
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
        self.skip()
        most = 1 + max(self._policies[self._target].retries.values(), default=0)
        return Next(self._target, 1, most, 0.0)

    def skip(self) -> int:
        """This will go on to the next target and return its number."""
        self._target += 1
        self._retries.clear()
        self._waits.clear()
        self._made = 1
        self._stale = False
        return self._target

    def _backoff(self, kind: Kind, policy: RetryPolicy) -> float:
        import backoff

        waits = self._waits.get(kind)
        if waits is None:
            waits = self._waits[kind] = backoff.expo(
                base=policy.factor, factor=policy.base, max_value=policy.max_delay
            )
            waits.send(None)  # its first value only primes the generator
        return float(backoff.full_jitter(next(waits) or 0.0))


CONTENT = frozenset({ev.TextStart, ev.ThinkingStart, ev.ToolCallStart, ev.Extension})
"""The events that hand content out."""


async def attempts(
    call: Call,
    targets: Sequence[Target],
    circuits: Circuits,
    open_attempt: Callable[[Target], AsyncGenerator[list[ev.AssistantMessageEvent], None]],
    unseen: Callable[[], bool],
) -> AsyncGenerator[list[ev.AssistantMessageEvent], None]:
    """This will yield the batches of one attempt after another until one is final.

    `open_attempt` makes an attempt on a target; `unseen()` tells whether nothing is handed out
    before the end, so that output does not count as seen.
    """
    plan = RetryPlan([target.options.retry for target in targets])
    number = 0
    while not _rested(call, targets, number, circuits):
        yield [ev.Notice("target_resting", f"{targets[number].model} keeps failing; passed over")]
        number = plan.skip()
    while True:
        target = targets[number]
        policy = target.options.retry
        call.attempt += 1
        seen = False
        upcoming: Next | None = None
        async with aclosing(open_attempt(target)) as batches:
            async for batch in batches:
                if batch:
                    last = batch[-1]
                    if not seen:
                        seen = any(type(event) in CONTENT for event in batch)
                    if type(last) is ev.Done:
                        circuits.succeeded(target.key)
                    elif type(last) is ev.Error and last.stop_reason == "error":
                        if last.error_kind in _RESTS:
                            circuits.failed(target.key, call.clock.time(), policy.circuit_threshold)
                        may = not seen or policy.restart_after_output or unseen()
                        upcoming = plan.after(last) if may else None
                        if upcoming is not None:
                            batch[-1] = _retry(last, upcoming, targets)
                            _log_retry(call, last, upcoming, targets)
                yield batch
        if upcoming is None:
            return
        number = upcoming.target
        if upcoming.delay > 0:
            await call.clock.sleep(upcoming.delay)


def _rested(call: Call, targets: Sequence[Target], number: int, circuits: Circuits) -> bool:
    """The last target is always tried: there is nothing better to do."""
    if number + 1 >= len(targets):
        return True
    cooldown = targets[number].options.retry.circuit_cooldown
    return circuits.allows(targets[number].key, call.clock.time(), cooldown)


def _retry(error: ev.Error, upcoming: Next, targets: Sequence[Target]) -> ev.Retry:
    return ev.Retry(
        upcoming.attempt,
        upcoming.max_attempts,
        upcoming.delay,
        error.error_message,
        str(targets[upcoming.target].model),
        error.error_kind,
    )


def _log_retry(call: Call, error: ev.Error, upcoming: Next, targets: Sequence[Target]) -> None:
    log.warning(
        "call %s: %s failed (%s: %s); attempt %d/%d on %s in %.2f s",
        call.id,
        call.model,
        error.error_kind,
        error.error_message,
        upcoming.attempt,
        upcoming.max_attempts,
        targets[upcoming.target].model,
        upcoming.delay,
    )

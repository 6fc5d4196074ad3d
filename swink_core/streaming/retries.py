"""When a failed attempt is made again, where, and after what wait.

`RetryPlan` decides; `Attempts` asks it about the call at hand. Neither does I/O. A call is made
again as long as nobody has seen output, or where the caller allowed a restart.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from swink_core.plugins.binding import Target
from swink_core.plugins.call import Call
from swink_core.streaming.breaker import Circuits
from swink_core.vocabulary import events as ev
from swink_core.vocabulary.options import RETRIES, RetryPolicy
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

log = logging.getLogger(__name__)

FALLS_BACK = frozenset(
    {
        Kind.THROTTLED, Kind.OVERLOADED, Kind.NETWORK, Kind.EMPTY_RESPONSE, Kind.TIMEOUT,
        Kind.QUOTA_EXHAUSTED, Kind.MODEL_NOT_FOUND, Kind.UNSUPPORTED, Kind.RESOURCE,
    }
)  # fmt: skip
"""Kinds after which the next model of a chain is tried."""

MOST_RETRIES = {
    "core:connection_refused": 1,
    "core:dns": 1,
    "core:tls": 0,
    "core:first_event": 1,
}
"""Retries, whatever the policy allows more, after failures that rarely pass by themselves."""

FINAL = "core:total"
"""The rule of the limit over the whole call, after which there is no time left for anything."""

_TIRES = FALLS_BACK - {Kind.UNSUPPORTED, Kind.MODEL_NOT_FOUND, Kind.RESOURCE}
"""Kinds that count towards giving a target a rest."""

_WORKS = frozenset({Kind.INVALID_REQUEST, Kind.CONTEXT_WINDOW_EXCEEDED, Kind.CONTENT_FILTERED})
"""Kinds that speak of one request only: the target that says so is well."""


def is_retryable(error: ev.Error) -> bool:
    """Tell whether the same call may succeed later, whatever the policy allows."""
    return error.error_kind in RETRIES and error.rule != FINAL


class Next(NamedTuple):
    """The next attempt: which target, its number there, out of how many, after what wait."""

    target: int
    attempt: int
    max_attempts: int
    delay: float


class RetryPlan:
    """Counts retries per kind on each target, and the waits of the whole call.

    `opens(n)` says whether the call may turn to target `n`, `rests(n)` whether that one, tried
    already, has begun to rest meanwhile. `passed_over` lists the targets that were not tried.
    """

    def __init__(
        self,
        policies: Sequence[RetryPolicy],
        opens: Callable[[int], bool] = lambda target: True,
        rests: Callable[[int], bool] = lambda target: False,
    ) -> None:
        self.passed_over: list[int] = []
        self._policies = policies
        self._opens = opens
        self._rests = rests
        self._target = 0
        self._retries: Counter[Kind] = Counter()
        self._made = 1
        self._waited = 0.0
        self._stale = False
        self._waits: dict[Kind, Iterator[float | None]] = {}

    def begin(self) -> int:
        """Return the target to begin with."""
        self._turn_to(0)
        return self._target

    def after(self, error: ev.Error) -> Next | None:
        """Return what follows a failed attempt; `None` if the failure is final."""
        if error.rule == FINAL:
            return None
        return self._again(error) or self._elsewhere(error)

    def _again(self, error: ev.Error) -> Next | None:
        kind = error.error_kind or Kind.UNKNOWN
        policy = self._policies[self._target]
        allowed = policy.retries.get(kind, 0)
        if error.rule in MOST_RETRIES:
            allowed = min(allowed, MOST_RETRIES[error.rule])
        left = allowed - self._retries[kind]
        if error.rule == "core:stale" and not self._stale:
            self._stale = True  # not the provider's fault, so it does not count
            return Next(self._target, self._made, self._made + left, 0.0)
        too_long = (error.retry_after or 0.0) > policy.retry_after_cap
        if left <= 0 or too_long or (not self._is_last() and self._rests(self._target)):
            return None
        delay = error.retry_after
        if delay is None:
            delay = self._backoff(kind, policy)
        if self._waited + delay > policy.budget:
            return None
        self._retries[kind] += 1
        self._made += 1
        self._waited += delay
        return Next(self._target, self._made, self._made + left - 1, delay)

    def _elsewhere(self, error: ev.Error) -> Next | None:
        if error.error_kind not in FALLS_BACK or self._is_last():
            return None
        self._turn_to(self._target + 1)
        most = 1 + max(self._policies[self._target].retries.values(), default=0)
        return Next(self._target, 1, most, 0.0)

    def _turn_to(self, target: int) -> None:
        self._target = target
        # the last target is always tried: there is nothing better to do
        while not (self._is_last() or self._opens(self._target)):
            self.passed_over.append(self._target)
            self._target += 1
        self._retries.clear()
        self._waits.clear()
        self._made = 1
        self._stale = False

    def _is_last(self) -> bool:
        return self._target + 1 >= len(self._policies)

    def _backoff(self, kind: Kind, policy: RetryPolicy) -> float:
        try:
            import backoff
        except OSError:  # out of descriptors, which an import needs too
            return policy.base
        waits = self._waits.get(kind)
        if waits is None:
            waits = self._waits[kind] = backoff.expo(
                base=policy.factor, factor=policy.base, max_value=policy.max_delay
            )
            waits.send(None)  # its first value only primes the generator
        return float(backoff.full_jitter(next(waits) or 0.0))


CONTENT = frozenset({ev.TextStart, ev.ThinkingStart, ev.ToolCallStart, ev.Extension})
"""The events that hand content out."""


class Attempts:
    """The attempts of a call: where each is made, and what follows one that failed.

    `upcoming` is the one to make next, after its wait; `None` if the last one was final.
    """

    def __init__(self, call: Call, targets: Sequence[Target], circuits: Circuits) -> None:
        self._call = call
        self._targets = targets
        self._circuits = circuits
        first = self._plan.begin() if len(targets) > 1 else 0
        self.upcoming: Next | None = Next(first, 1, 1, 0.0)

    @cached_property
    def _plan(self) -> RetryPlan:
        """Made when it is needed, which for most calls is never."""
        return _plan(self._call, self._targets, self._circuits)

    def passed_over(self) -> list[ev.AssistantMessageEvent]:
        """Tell which targets were not tried, once."""
        if len(self._targets) == 1:
            return []
        resting = [self._targets[number].model for number in self._plan.passed_over]
        self._plan.passed_over.clear()
        return [ev.Notice("target_resting", f"{model} keeps failing") for model in resting]

    def ended(
        self, target: Target, terminal: ev.Done | ev.Error, seen: bool
    ) -> ev.Done | ev.Error | ev.Retry:
        """Return what the end of an attempt is to the caller, who may have `seen`
        output of it: the end of all, or a retry."""
        call, self.upcoming = self._call, None
        if isinstance(terminal, ev.Done):
            self._circuits.answered(target.key)
        elif terminal.stop_reason == "error":
            _note(terminal, target, self._circuits, call)
            if not seen or target.options.retry.restart_after_output:
                self.upcoming = self._plan.after(terminal)
            if self.upcoming is not None:
                _log_retry(call, terminal, self.upcoming, self._targets)
                return _retry(terminal, self.upcoming, self._targets)
        return terminal


def _plan(call: Call, targets: Sequence[Target], circuits: Circuits) -> RetryPlan:
    def ask(question: Callable[[Hashable, float, float], bool]) -> Callable[[int], bool]:
        def asked(number: int) -> bool:
            cooldown = targets[number].options.retry.circuit_cooldown
            return question(targets[number].key, call.clock.time(), cooldown)

        return asked

    policies = [target.options.retry for target in targets]
    return RetryPlan(policies, ask(circuits.allows), ask(circuits.is_open))


def _note(error: ev.Error, target: Target, circuits: Circuits, call: Call) -> None:
    if error.error_kind in _WORKS:
        circuits.answered(target.key)
    elif error.error_kind in _TIRES and error.rule != "core:stale":
        circuits.failed(target.key, call.clock.time(), target.options.retry.circuit_threshold)


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

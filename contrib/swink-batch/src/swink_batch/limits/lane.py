"""`Lane`: what is known of one target's limits, and whether a call may begin.

Three things decide that, and each is learnt: the *window*, how many calls may be under way; the
*rate*, how many may begin in a second; and the *allowance* in the headers of answers: what remains,
over the seconds until it is back. Where a bucket is refilled all the time, that settles at half the
bucket; where a period begins anew, it spreads what is left over the period. Headers may lie: one
that forbids for long is believed ever shorter, as long as calls are answered in spite of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from swink_batch.limits.headers import allowances
from swink_batch.limits.rate import LOWEST, Rate
from swink_batch.limits.window import Window
from swink_core import Done, Error, StreamErrorKind
from swink_core.providers import KINDS

__all__ = ["Lane"]

CAUSES = frozenset(kind for kind, row in KINDS.items() if row.scope in ("service", "machine"))
"""Failures that say that fewer calls should be under way."""

LONGEST_SHUT = 60.0
"""Seconds for which a lane is shut at most, whatever a server says."""

LONGEST_PERIOD = 120.0
"""Seconds of a limit that is spread over its period; of a longer one only the end counts."""

SPREAD = 1.25
"""How much faster than answers come calls begin at most, so that they do not come in volleys."""

VOLLEY_FREE = 200.0
"""Calls a second up to which few have begun before it is known that the first was refused."""

CAUTION = 0.25
"""By how much an answer widens the window from there on: by a quarter a round, not to twice it."""

BURST = 0.05
"""Seconds that may be caught up with, so that a timer's grain costs nothing."""


class Lane:
    """The limits of one target. Times are in seconds of whoever asks.

    `most` bounds the window; `members` is how many processes share what headers allow; `refused`
    counts calls that were refused for the rate.
    """

    def __init__(self, most: int, now: float) -> None:
        self.window = Window(most)
        self.rate = Rate()
        self.members = 1
        self.busy = 0
        self.refused = 0
        self.tokens_a_call = 0.0
        self._latency = 0.0
        self._allowed = inf  # the rate that headers allow
        self._due = now
        self._shut_until = -inf
        self._belief = LONGEST_SHUT

    def wait(self, now: float) -> float:
        """Return how many seconds the next call has to wait; `inf`: until one has ended."""
        if self.busy >= int(self.window.size):
            return inf
        return max(self._shut_until, self._due) - now

    def begin(self, now: float) -> None:
        """Let a call begin."""
        self.busy += 1
        self.rate.begin(now, self._due > now - BURST)
        self._shut_until = max(self._shut_until, now + self.rate.pause)
        pace = min(self.rate.value, self._allowed)
        if self._latency:
            pace = min(pace, SPREAD * self.window.size / self._latency)
        if pace != inf:
            self._due = max(self._due, now - BURST) + 1.0 / pace

    def end(self, began: float, now: float, terminal: Done | Error) -> None:
        """Learn from how a call ended that began then."""
        if terminal.usage is not None and terminal.usage.total:
            used = float(terminal.usage.total)
            self.tokens_a_call += (used - self.tokens_a_call) * (0.05 if self.tokens_a_call else 1)
        kind = terminal.error_kind if isinstance(terminal, Error) else None
        if isinstance(terminal, Error) and kind is StreamErrorKind.THROTTLED:
            self._refuse(began, now, terminal.retry_after)
        else:
            is_fast = bool(self._latency) and self.window.size > VOLLEY_FREE * self._latency
            self.window.end(kind not in CAUSES, self.busy, CAUTION if is_fast else 1.0)
            self._latency += (now - began - self._latency) * (0.1 if self._latency else 1)
        self.busy -= 1

    def heed(self, headers: Mapping[str, str], now: float, answered: bool) -> None:
        """Learn from an answer's headers."""
        allowed, shut = inf, 0.0
        for tokens, remaining, seconds in allowances(headers):
            calls = remaining / self.members
            if tokens:
                calls /= max(1.0, self.tokens_a_call)
            if calls < 1.0:
                shut = max(shut, seconds)
            elif 0.0 < seconds <= LONGEST_PERIOD:
                allowed = min(allowed, calls / seconds)
        self._allowed = max(allowed, LOWEST)
        if shut:
            if answered and now >= self._shut_until > -inf:
                self._belief /= 2  # an answer came, though none was to be had
            self._shut_until = max(self._shut_until, now + min(shut, self._belief))

    def _refuse(self, began: float, now: float, wait: float | None) -> None:
        self.refused += 1
        if hold := self.rate.refuse(began, now):
            self._belief = LONGEST_SHUT
            self._shut_until = now + min(max(wait or 0.0, hold), LONGEST_SHUT)
        self._due = max(self._due, now + 1.0 / self.rate.value)

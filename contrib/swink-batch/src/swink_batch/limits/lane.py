"""`Lane`: the limits of one target (a model with its options), which decide when calls begin.

Three learned values are used: the *window*, the maximum number of concurrent calls; the *rate*, the
maximum number of new calls per second; and the *allowance* from response headers, which is the
remaining quota divided by the seconds until its reset. If a server refills a quota continuously,
calls at the allowed rate leave about half of the quota unused; if a server resets the quota at
fixed intervals, the remaining calls are spread evenly over the interval. Headers may be wrong: each
time a call succeeds although headers report that the quota is used up, the maximum wait that such
headers can cause is halved.
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
"""Kinds of failure after which fewer calls may run at a time."""

LONGEST_SHUT = 60.0
"""The maximum wait in seconds after a rejection, even if a server requests a longer one."""

LONGEST_PERIOD = 120.0
"""The longest period, in seconds, over which a quota is spread.

If a quota's period is longer, calls begin without delay until the quota is used up.
"""

SPREAD = 1.25
"""The maximum ratio of new calls per second to answers per second; it prevents bursts."""

VOLLEY_FREE = 200.0
"""The rate, in calls per second, above which many calls begin before a rejection is noticed."""

CAUTION = 0.25
"""The growth of the window, in calls per answer, at rates above `VOLLEY_FREE`.

With this value, the window grows by a quarter in each round of calls; below `VOLLEY_FREE`, it
doubles.
"""

BURST = 0.05
"""If a timer fires late, the calls that were due in this many past seconds begin at once."""


class Lane:
    """The limits of one target. Times are in seconds of the caller's clock.

    `most` is the maximum of the window; `members` is the number of processes that share the quota
    in the response headers; `refused` is the number of calls rejected by a rate limit.
    """

    def __init__(self, most: int, now: float) -> None:
        self.window = Window(most)
        self.rate = Rate()
        self.members = 1
        self.busy = 0
        self.refused = 0
        self.tokens_a_call = 0.0
        self._latency = 0.0
        self._allowed = inf  # the rate that headers allow, in calls per second
        self._due = now
        self._shut_until = -inf
        self._belief = LONGEST_SHUT

    def wait(self, now: float) -> float:
        """Return the seconds that the next call must wait; `inf` if another call must end first."""
        if self.busy >= int(self.window.size):
            return inf
        return max(self._shut_until, self._due) - now

    def held_to(self, now: float) -> float | None:
        """Return the calls per second to which rate limits restrict the target.

        Return `None` if the number of concurrent calls restricts it, or nothing.
        """
        if self._shut_until > now:
            return 0.0
        rate = min(self.rate.value, self._allowed)
        return rate if self.wait(now) < inf and rate < self._spread else None

    @property
    def _spread(self) -> float:
        """The calls per second that prevent bursts."""
        return SPREAD * self.window.size / self._latency if self._latency else inf

    def begin(self, now: float) -> None:
        """Record the start of a call."""
        self.busy += 1
        self.rate.begin(now, self._due > now - BURST)
        self._shut_until = max(self._shut_until, now + self.rate.pause)
        pace = min(self.rate.value, self._allowed, self._spread)
        if pace != inf:
            self._due = max(self._due, now - BURST) + 1.0 / pace

    def end(self, began: float, now: float, terminal: Done | Error) -> None:
        """Update the limits after a call that began at the time `began`."""
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
        """Update the limits from a response's headers; `answered` is true if the call succeeded."""
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
                self._belief /= 2  # a call succeeded although headers ruled it out
            self._shut_until = max(self._shut_until, now + min(shut, self._belief))

    def _refuse(self, began: float, now: float, wait: float | None) -> None:
        self.refused += 1
        if hold := self.rate.refuse(began, now):
            self._belief = LONGEST_SHUT
            self._shut_until = now + min(max(wait or 0.0, hold), LONGEST_SHUT)
        self._due = max(self._due, now + 1.0 / self.rate.value)

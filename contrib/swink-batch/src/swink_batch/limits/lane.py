"""`Lane`: what is known of one target's limits, and whose turn it is to call it.

Three things decide when a call may begin, and each is learnt:

* the *window*, how many calls may be under way. It doubles with each round of answers until
  something gives way, then grows by one a round; an overload, a time limit or a broken connection
  halves it, once for all calls that had begun by then (AIMD).
* the *rate*, how many may begin in a second. Unknown until a call is refused for the rate; then it
  is what was answered of late, and from there it feels its way up, slower near where it was
  refused, faster the longer nothing is.
* the *allowance* in the headers of answers: what remains, over the seconds until it is back. Where
  a bucket is refilled all the time this settles at half the bucket; where a window begins anew, it
  spreads what is left over the window. Headers may lie: one that forbids for longer than is
  plausible is believed ever shorter, as long as calls are answered in spite of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from math import inf

from swink_batch.limits.headers import allowances
from swink_core import Done, Error, StreamErrorKind

__all__ = ["Lane"]

Kind = StreamErrorKind

FIRST_WINDOW = 8.0

CAUSES = frozenset({Kind.OVERLOADED, Kind.TIMEOUT, Kind.NETWORK, Kind.RESOURCE})
"""Failures that say that fewer calls should be under way."""

LOOK_BACK = 2.0
"""Seconds of answers from which a rate is measured."""

BELOW = 0.97
"""How far below what was answered the rate begins after a refusal."""

CLIMB = 0.05
"""By what share the rate grows over `PATIENCE` answers; twice as fast after as many more, …"""

PATIENCE = 1000

FASTEST_CLIMB = 16.0

LOWEST_RATE = 0.05
"""Calls a second: at the worst, one is tried every twenty seconds."""

LONGEST_HOLD = 60.0
"""Seconds for which a lane is shut at most, whatever a header says."""

LONGEST_PERIOD = 120.0
"""Seconds of a limit that is spread over its period; of a longer one only the end counts."""

BURST = 0.05
"""Seconds that may be caught up with, so that a timer's grain costs nothing."""


class Lane:
    """The limits of one target. Times are in seconds of whoever asks.

    `most` bounds the window; `members` is how many processes share what headers allow.
    """

    def __init__(self, most: int, now: float) -> None:
        self.most = most
        self.members = 1
        self.window = min(FIRST_WINDOW, float(most))
        self.rate = inf
        self.busy = 0
        self.refused = 0
        self.tokens_a_call = 0.0
        self._slow_start = True
        self._cut_at = -inf  # when the window was last cut
        self._eased_at = -inf  # when the rate was last lowered
        self._clean = 0  # answers since then
        self._answered: deque[float] = deque()
        self._allowed = inf  # the rate that headers allow
        self._due = now
        self._shut_until = -inf
        self._belief = LONGEST_HOLD

    def wait(self, now: float) -> float:
        """Return how many seconds the next call has to wait; `inf`: until one has ended."""
        if self.busy >= max(1, int(self.window)):
            return inf
        return max(self._shut_until, self._due) - now

    def begin(self, now: float) -> None:
        """Let a call begin."""
        self.busy += 1
        pace = min(self.rate, self._allowed)
        if pace != inf:
            self._due = max(self._due, now - BURST) + 1.0 / pace

    def end(self, began: float, now: float, terminal: Done | Error) -> None:
        """Learn from how a call ended that began then."""
        self.busy -= 1
        kind = terminal.error_kind if isinstance(terminal, Error) else None
        if terminal.usage is not None and terminal.usage.total:
            used = float(terminal.usage.total)
            self.tokens_a_call += (used - self.tokens_a_call) * (0.05 if self.tokens_a_call else 1)
        if kind is None:
            self._succeed(now)
        elif kind is Kind.THROTTLED:
            wait = terminal.retry_after if isinstance(terminal, Error) else None
            self._throttle(began, now, wait)
        elif kind in CAUSES and began > self._cut_at:
            self._cut_at, self._slow_start = now, False
            self.window = max(1.0, self.window / 2)

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
        self._allowed = max(allowed, LOWEST_RATE)
        if shut:
            if answered and now >= self._shut_until > -inf:
                self._belief /= 2  # an answer came, though none was to be had
            self._shut_until = max(self._shut_until, now + min(shut, self._belief))

    def _succeed(self, now: float) -> None:
        if self.window < self.most and self.busy + 1 >= int(self.window):
            grown = self.window + (1.0 if self._slow_start else 1.0 / self.window)
            self.window = min(grown, float(self.most))
        if self.rate != inf:
            self._clean += 1
            climb = min(2.0 ** (self._clean // PATIENCE), FASTEST_CLIMB)
            self.rate *= 1.0 + CLIMB / PATIENCE * climb
        self._answered.append(now)
        self._forget(now)

    def _throttle(self, began: float, now: float, wait: float | None) -> None:
        self.refused += 1
        self._belief = LONGEST_HOLD
        if began <= self._eased_at:
            return  # it had begun before the rate was lowered
        self._slow_start = False
        self._forget(now)
        if not self._answered or self._answered[-1] <= self._eased_at:
            # nothing at all is answered: wait as long as they say, or with ever less haste
            self.rate = max(LOWEST_RATE, (self.rate if self.rate != inf else 1.0) / 2)
            self._shut_until = now + min(wait or 1.0 / self.rate, LONGEST_HOLD)
        else:
            span = max(now - max(self._eased_at, now - LOOK_BACK, self._answered[0]), 0.05)
            since = sum(1 for at in self._answered if at > now - span)
            self.rate = max(LOWEST_RATE, min(self.rate, since / span) * BELOW)
        self._eased_at, self._clean = now, 0
        self._due = now + 1.0 / self.rate

    def _forget(self, now: float) -> None:
        answered = self._answered
        while answered and answered[0] < now - LOOK_BACK:
            answered.popleft()

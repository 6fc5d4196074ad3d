"""`Rate`: how many calls may begin in a second, learnt from those that are refused for it."""

from __future__ import annotations

from collections import deque
from math import inf

__all__ = ["LOWEST", "Rate"]

LOOK_BACK = 2.0
"""Seconds of calls and refusals from which a rate is measured."""

BELOW = 0.97
"""How far below what got through the rate begins after a refusal."""

CLIMB = 0.05
"""By what share the rate grows over `PATIENCE` calls; twice as fast after as many more, …"""

PATIENCE = 1000

FASTEST = 16.0
"""The most times as fast."""

GUESS = 8.0
"""Calls a second, where the first calls of all are refused and nothing has been answered."""

GUESS_CLIMB = 0.1
"""By what share a guess grows with each call."""

SEARCH_CLIMB = 0.005
"""By what share a rate grows with each call that was measured before the limit was met."""

BLIND_CLIMB = 0.05
"""By what share it grows meanwhile at most, before it is known that a call was refused."""

LONGEST_LAG = 0.1
"""Seconds that this takes at most: a refusal that was known late says nothing of the next."""

LOWEST = 0.05
"""Calls a second: at the worst, one is tried every twenty seconds."""

LEAST_SAMPLE = 10
"""Calls from which a rate is measured, at least."""

SHORTEST_SPAN = 0.05
"""Seconds over which it is measured, at least."""

NEAR = 0.8
"""A measured rate that is so near to the one that was tried is the limit."""

FIRST = 0.6
"""What is kept of the rate at which the first call was refused: some had been saved up for it."""

LONGEST_HOLD = 20.0
"""Seconds after which at the latest one is tried again where nothing at all gets through."""

LEAST_HOLD = 0.02
"""Seconds before the first such try; each wait after it is twice as long."""

MOSTLY = 0.5
"""Where nothing got through for so much of a period, it is the limit that ended it."""

PATIENT = 3.0
"""How many times the lag it is waited what becomes of a call that is tried."""

ALIKE = 0.2
"""Two periods that differ by less say the same of a limit."""

UNHELPED = 0.75
"""Where as many calls are refused at this share of the rate, it is for something else."""

ENOUGH = 10
"""Refusals from which a share is told."""

SURE = 10.0
"""How many times as many calls as there are to a refusal get through until it is taken for gone."""


class Rate:
    """Unknown until a call is refused; then that of the calls that were not. From there it feels
    its way up, slowly once the limit has been met, and faster the longer nothing is refused.

    What counts is when calls begin: an answer may take long, a refusal does not. Where nothing at
    all gets through, as when a server counts calls by the minute and a minute's are used up, calls
    are tried one at a time, after ever longer waits, until one is let through; what got through
    since the last time that happened, by the time that went by, is the rate.

    Some servers refuse a share of calls however slowly they come: where slowing down does not help
    though most calls get through, that share is taken for noise, and the rate goes up again.
    """

    def __init__(self) -> None:
        self.value = inf
        self._begun: deque[float] = deque()
        self._refused: deque[float] = deque()
        self._eased_at = -inf
        self._since = -inf  # when what is measured began
        self._is_measured = False  # from what was not refused
        self._is_found = False  # the limit was met at about this rate
        self._lag = 0.0  # seconds until a refusal is known
        self._clean = 0  # calls since the last refusal
        self._top = inf  # the rate after the first of refusals that came soon after each other
        self._calls = self._seen = 0  # since then, and how many of them were refused
        self._share = 0.0
        self._gap = 0.0  # calls between two refusals, of late
        self._noise = 0.0
        self._hold = 0.0  # seconds; 0: calls get through
        self._held_at = -inf  # since when nothing got through
        self._tried_at: float | None = None  # when what is tried after a hold began
        self._period: list[float] = []  # when it began, calls in it, refusals, the last one's rate

    def begin(self, now: float, is_used: bool) -> None:
        """Count a call; `is_used` says whether calls begin as fast as the rate allows."""
        self._begun.append(now)
        _forget(self._begun, now)
        if not self._period:
            self._period = [now, 0, 0, 0.0]
        if self._hold and self._tried_at is not None:
            self._release(self._tried_at)
        self._period[1] += 1
        if self._hold:
            self._tried_at = now
        if self.value != inf and is_used:
            self._clean += 1
            self._calls += 1
            if self._clean * self._noise > SURE:
                self._noise = 0.0
            if self.value >= self._top or self._clean * self._share > SURE:
                self._top = inf  # slowing down has helped
            self.value *= 1.0 + self._climb()

    @property
    def pause(self) -> float:
        """Seconds for which no call begins, to see what becomes of one that is tried."""
        return PATIENT * min(self._lag, LONGEST_LAG) if self._hold else 0.0

    def _release(self, tried_at: float) -> None:
        """Go on: what was tried after a hold got through."""
        began, calls, refused, last = self._period
        self._hold, self._tried_at = 0.0, None
        passed, seconds = calls - refused - 1, tried_at - began
        if passed < LEAST_SAMPLE or seconds < SHORTEST_SPAN:
            return
        rate = passed / seconds
        was_held = tried_at - self._held_at > MOSTLY * seconds
        is_near = bool(last) and rate >= NEAR * self.value
        self._is_found = was_held or is_near or abs(rate - last) <= ALIKE * rate
        self._is_measured, self.value = True, max(LOWEST, BELOW * min(self.value, rate))
        self._since, self._eased_at, self._clean = tried_at, tried_at, 0
        self._period = [tried_at, 1, 0, rate]
        if was_held:
            self._top = inf

    def refuse(self, began: float, now: float) -> float:
        """Count a refusal of a call that began then; return for how many seconds none may begin:
        where nothing at all gets through."""
        self._refused.append(began)
        _forget(self._refused, now)
        _forget(self._begun, now)
        self._period[2] += 1
        self._lag += (now - began - self._lag) * (0.1 if self._lag else 1)
        if began <= self._eased_at:
            return 0.0  # it had begun before the rate was lowered
        is_first = self.value == inf
        passed, refused, since = self._got_through(self._since, began)
        share = refused / (passed + refused)
        rate = passed / max(began - since, SHORTEST_SPAN)
        if passed and self._noise and share <= 2 * self._noise + 0.03:
            self._clean = 0
            self.value *= 1.02
            if passed >= LEAST_SAMPLE:
                self.value = min(self.value, 2.0 * rate)  # which others hold than this one
            return 0.0
        nothing = not self._got_through(self._eased_at, began)[0]
        if is_first:
            self._top = inf
        self._seen += not nothing
        self._share = self._seen / max(1, self._seen, self._calls)
        self._gap += (self._clean - self._gap) * 0.2
        is_slow = self.value < UNHELPED * self._top < inf and self._seen >= ENOUGH
        is_noise = is_slow and self._share < 0.5 and self._share * (1.0 + self._gap) <= 2.0
        if is_noise and not nothing:
            self._noise, self.value = self._share, 2 * self._top
            self._top = inf
        elif passed >= LEAST_SAMPLE:
            kept = FIRST if is_first else BELOW
            measured = min(self.value, rate) * kept
            self._is_found = measured >= NEAR * self.value
            self._is_measured, self.value, self._since = True, measured, now
        else:
            eased = self.value * (1.0 if nothing else BELOW)
            self.value = min(eased, self.value if self._is_measured else GUESS)
        self.value = max(self.value, LOWEST)
        if self._top == inf and not is_first:  # what got through at first was saved up
            self._top, self._gap = self.value / BELOW, 0.0
            self._calls = self._seen = 0
        self._eased_at, self._clean, self._tried_at = now, 0, None
        if nothing:
            self._held_at = self._held_at if self._hold else began
            self._hold = min(2.0 * self._hold or max(LEAST_HOLD, self._lag), LONGEST_HOLD)
        return self._hold

    def _got_through(self, since: float, began: float) -> tuple[int, int, float]:
        """Return how many calls got through and how many did not, and when the first one began: of
        those that had begun since then when this one began, which was refused. What became of
        later ones is not known yet."""
        begun = [at for at in self._begun if since < at <= began] or [began]
        refused = sum(1 for at in self._refused if since < at <= began)
        return max(0, len(begun) - refused), refused, max(since, begun[0])

    def _climb(self) -> float:
        """Return by what share a call lets the rate grow."""
        if not self._is_measured:
            return GUESS_CLIMB
        if self._noise or not self._is_found:
            blind = self.value * min(self._lag, LONGEST_LAG)  # calls
            return min(SEARCH_CLIMB, BLIND_CLIMB / max(blind, 1e-9))
        return CLIMB / PATIENCE * min(2.0 ** (self._clean // PATIENCE), FASTEST)


def _forget(times: deque[float], now: float) -> None:
    while times and times[0] < now - LOOK_BACK:
        times.popleft()

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

LOWEST = 0.05
"""Calls a second: at the worst, one is tried every twenty seconds."""

LEAST_SAMPLE = 10
"""Calls from which a rate is measured, at least."""

SHORTEST_SPAN = 0.05
"""Seconds over which it is measured, at least."""

NEAR = 0.8
"""A measured rate that is so near to the one that was tried is the limit."""

SOON = 30
"""So few calls between two refusals say that slowing down has not helped."""

UNHELPED = 0.5
"""Where calls are refused as soon at this share of the rate, it is for something else."""

QUIET = 0.02
"""A share of refusals that is none."""


class Rate:
    """Unknown until a call is refused; then that of the calls that were not. From there it feels
    its way up, slowly once the limit has been met, and faster the longer nothing is refused.

    What counts is when calls begin: an answer may take long, a refusal does not. Some servers
    refuse a share of calls however slowly they come: where slowing down does not help though most
    calls get through, that share is taken for noise, and the rate goes up again.
    """

    def __init__(self) -> None:
        self.value = inf
        self._begun: deque[float] = deque()
        self._refused: deque[float] = deque()
        self._eased_at = -inf
        self._is_measured = False  # from what was not refused
        self._is_found = False  # the limit was met at about this rate
        self._clean = 0  # calls since the last refusal
        self._top = inf  # the rate after the first of refusals that came soon after each other
        self._noise = 0.0

    def begin(self, now: float, is_used: bool) -> None:
        """Count a call; `is_used` says whether calls begin as fast as the rate allows."""
        self._begun.append(now)
        _forget(self._begun, now)
        if self.value != inf and is_used:
            self._clean += 1
            if self._clean % (3 * SOON) == 0:
                self._noise = self._noise / 2 if self._noise > QUIET else 0.0
            self.value *= 1.0 + self._climb()

    def refuse(self, began: float, now: float) -> bool:
        """Count a refusal of a call that began then; tell whether nothing at all gets through."""
        self._refused.append(began)
        _forget(self._refused, now)
        _forget(self._begun, now)
        if began <= self._eased_at:
            return False  # it had begun before the rate was lowered
        begun = [at for at in self._begun if at > self._eased_at] or [began]
        refused = sum(1 for at in self._refused if at > self._eased_at)
        passed = max(0, len(begun) - refused)
        share = refused / (passed + refused)
        if passed and self._noise and share <= 2 * self._noise + 0.05:
            self.value *= 1.02
            return False
        if self._clean >= 3 * SOON or self.value == inf:
            self._top = inf
        if passed and share < 0.5 and self.value < UNHELPED * self._top < inf:
            self._noise, self.value = share, 2 * self._top
        elif passed >= LEAST_SAMPLE:
            span = max(now - max(self._eased_at, begun[0]), SHORTEST_SPAN)
            measured = min(self.value, passed / span) * BELOW
            self._is_found = measured >= NEAR * self.value
            self._is_measured, self.value = True, measured
        else:
            eased = self.value * (BELOW if passed else 0.5)
            self.value = min(eased, self.value if self._is_measured else GUESS)
        self.value = max(self.value, LOWEST)
        if self._top == inf:
            self._top = self.value
        self._eased_at, self._clean = now, 0
        return not passed

    def _climb(self) -> float:
        """Return by what share a call lets the rate grow."""
        if not self._is_measured:
            return GUESS_CLIMB
        if self._noise or not self._is_found:
            return SEARCH_CLIMB
        return CLIMB / PATIENCE * min(2.0 ** (self._clean // PATIENCE), FASTEST)


def _forget(times: deque[float], now: float) -> None:
    while times and times[0] < now - LOOK_BACK:
        times.popleft()

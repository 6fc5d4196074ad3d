"""`Window`: how many calls may be under way at a time."""

from __future__ import annotations

__all__ = ["Window"]

FIRST = 8.0

TOLERATED = 0.05
"""The share of calls that may fail before fewer are made: some fail wherever one asks."""

LEAST_ROUND = 8
"""Calls whose ends say something about all."""


class Window:
    """A number of calls that adds and multiplies: it doubles with each round of calls until one
    gives way, and grows by one a round from then on; a round in which too many failed takes their
    share off it, half of it at most (AIMD). A round is as many calls as may be under way.
    """

    def __init__(self, most: int) -> None:
        self.size = min(FIRST, float(most))
        self._most = float(most)
        self._slow_start = True
        self._ended = self._bad = 0
        self._full = False

    def end(self, good: bool, busy: int, step: float = 1.0) -> None:
        """Count the end of a call; `busy` were under way with it. At first, a good one lets so many
        more be so."""
        self._ended += 1
        self._bad += not good
        self._full = self._full or busy >= int(self.size)
        if self._slow_start and good and 2 * busy > int(self.size):  # calls that are spread lag
            self.size = min(self.size + step, self._most)  # one by one: no volley at a round's end
        if self._ended < max(LEAST_ROUND, int(self.size)):
            return
        share = self._bad / self._ended
        if share > TOLERATED:
            self.size = max(1.0, self.size * max(0.5, 1.0 - share))
            self._slow_start = False
        elif self._full:  # one that is not used says nothing
            self.size = min(self.size + (not self._slow_start), self._most)
        self._ended = self._bad = 0
        self._full = False

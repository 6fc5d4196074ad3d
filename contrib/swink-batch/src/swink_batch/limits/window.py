"""`Window`: the maximum number of concurrent calls."""

from __future__ import annotations

__all__ = ["Window"]

FIRST = 8.0

TOLERATED = 0.05
"""Share of failed calls below which the window is not reduced."""

LEAST_ROUND = 8
"""Number of finished calls that is representative."""


class Window:
    """An adaptive limit (AIMD): it doubles with each round of calls until the first overload, and
    then grows by one per round; a round with too many failures reduces it by their share, at most
    by half. A round is as many calls as may run concurrently.
    """

    def __init__(self, most: int) -> None:
        self.size = min(FIRST, float(most))
        self._most = float(most)
        self._slow_start = True
        self._ended = self._bad = 0
        self._full = False

    def end(self, good: bool, busy: int, step: float = 1.0) -> None:
        """Count the end of a call; `busy` calls ran with it. Initially, each success raises the
        limit.
        """
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

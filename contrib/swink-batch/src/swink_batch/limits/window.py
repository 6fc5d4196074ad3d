"""`Window`: the maximum number of concurrent calls."""

from __future__ import annotations

__all__ = ["Window"]

FIRST = 8.0

TOLERATED = 0.05
"""The maximum share of failed calls in a round that does not reduce the window."""

LEAST_ROUND = 8
"""The minimum number of finished calls in a round."""


class Window:
    """An adaptive limit for concurrent calls (AIMD).

    The limit doubles with each round of calls until the first overload, and then grows by one per
    round. A round with too many failures reduces the limit by the share of failures, at most by
    half. A round consists of as many calls as the limit allows at a time.
    """

    def __init__(self, most: int) -> None:
        self.size = min(FIRST, float(most))
        self._most = float(most)
        self._slow_start = True
        self._ended = self._bad = 0
        self._full = False

    def end(self, good: bool, busy: int, step: float = 1.0) -> None:
        """Record the end of a call; `busy` is the number of calls that were running.

        Until the first overload, each success raises the limit by `step`.
        """
        self._ended += 1
        self._bad += not good
        self._full = self._full or busy >= int(self.size)
        if self._slow_start and good and 2 * busy > int(self.size):  # not if few calls run
            # One by one, so that calls do not begin all at once.
            self.size = min(self.size + step, self._most)
        if self._ended < max(LEAST_ROUND, int(self.size)):
            return
        share = self._bad / self._ended
        if share > TOLERATED:
            self.size = max(1.0, self.size * max(0.5, 1.0 - share))
            self._slow_start = False
        elif self._full:  # a limit that was not reached proves nothing
            self.size = min(self.size + (not self._slow_start), self._most)
        self._ended = self._bad = 0
        self._full = False

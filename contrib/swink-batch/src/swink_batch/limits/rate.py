"""`Rate`: the number of calls that may begin per second, learned from rejections."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from math import inf, log

__all__ = ["LOWEST", "Rate"]

LOOK_BACK = 2.0
"""A rate is measured from the calls and rejections of this many past seconds."""

BELOW = 0.97
"""The ratio of the new rate to the measured rate after a rejection."""

CLIMB = 0.05
"""The growth of the rate over `PATIENCE` calls, as a fraction (0.05: by 5 %).

The growth doubles after each further `PATIENCE` calls without a rejection.
"""

PATIENCE = 1000

FASTEST = 16.0
"""The maximum factor by which the growth increases."""

GUESS = 8.0
"""The assumed rate in calls per second if all calls so far were rejected."""

GUESS_CLIMB = 0.1
"""The growth of the assumed rate (`GUESS`) with each call, as a fraction."""

SEARCH_CLIMB = 0.005
"""The growth of the rate with each call, as a fraction, until the server's limit is reached."""

BLIND_CLIMB = 0.05
"""The maximum growth of the rate, as a fraction, between a call's start and its rejection."""

LONGEST_LAG = 0.1
"""The maximum assumed time, in seconds, between a call's start and its rejection.

A longer measured time counts as this value, so that the next call does not wait too long.
"""

TRIAL_AFTER = 16
"""The number of calls in a row that must succeed before the first trial of a faster rate."""

TRIAL_FACTOR = 5
"""The factor by which `TRIAL_AFTER` increases with each trial that ends in a rejection."""

TRIAL_DOUBLING = 0.5
"""The seconds in which the rate doubles during a trial."""

TRIAL_SUCCESS = 4.0
"""If a trial increases the rate by more than this factor, the earlier limit no longer applies."""

TRIAL_KEPT = 0.5
"""The share of a trial's highest rate that remains if the trial ends in a rejection."""

LONG_PERIOD = 5.0
"""The least period, in seconds, of a quota that a trial could use up early."""

TRIAL_PERIODS = 16
"""The number of such periods without a rejection before a trial."""

LOWEST = 0.05
"""The minimum rate in calls per second: one attempt every twenty seconds."""

LEAST_SAMPLE = 10
"""The minimum number of calls for measuring a rate."""

SHORTEST_SPAN = 0.05
"""The minimum number of seconds for measuring a rate."""

NEAR = 0.8
"""If at least this share of the attempted rate is accepted, the accepted rate is the limit."""

FIRST = 0.6
"""The factor by which the rate measured at the first rejection is multiplied.

Before this rejection, the server accepts calls faster than its limit, because it has unused quota.
"""

LONGEST_HOLD = 20.0
"""The maximum interval in seconds between probes while every call is rejected."""

LEAST_HOLD = 0.02
"""The seconds before the first probe; each further wait is twice as long."""

MOSTLY = 0.5
"""If more than this share of a period had only rejections, the server's limit was reached."""

PATIENT = 3.0
"""How long to wait for the outcome of a probe, as a multiple of the usual time to a rejection."""

ALIKE = 0.2
"""If two successive measured rates differ by less than this share, they are the server's limit."""

UNHELPED = 0.75
"""The share to which the rate is lowered before checking whether slowing down helps.

If the server still rejects the same share of calls, the rate of calls is not the cause.
"""

ENOUGH = 10
"""The number of rejections needed to estimate the share of rejected calls."""

SURE = 10.0
"""If this many times the usual number of calls succeed in a row, rejections have ended.

The usual number is the number of calls between two rejections.
"""


class Rate:
    """The rate of calls that a server accepts, learned from rejections.

    Until the first rejection, the rate is unlimited. At a rejection, it is set to the measured rate
    of successful calls. It then increases, slowly at first, and faster the longer no call is
    rejected.

    After some calls in a row without a rejection, a trial begins: the rate doubles at short
    intervals until the next rejection. The rate thus recovers soon when a server rejected calls
    only for a while. After a trial that found the same limit again, the next one begins much later,
    so that trials cause few rejections.

    Calls are counted when they begin and not when they end, because rejections arrive much sooner
    than answers. If every call is rejected, as when a server's quota per minute is used up, single
    calls probe the server with increasing waits until one succeeds. The rate is then the number of
    calls that succeeded since the previous successful probe, divided by the elapsed time.

    Some servers reject a share of calls at any rate: if slowing down does not help although most
    calls succeed, that share is treated as noise, and the rate increases again.
    """

    def __init__(self) -> None:
        self.value = inf
        self._begun: deque[float] = deque()  # the starts of recent calls, in order
        self._refused: deque[float] = deque()  # the starts of those that were rejected, in order
        self._eased_at = -inf
        self._since = -inf  # when the measurement began
        self._is_measured = False  # measured from accepted calls
        self._is_found = False  # the limit was reached near this rate
        self._lag = 0.0  # seconds until a rejection is known
        self._clean = 0  # calls since the last rejection
        self._top_at = inf  # when `_top` was set
        self._top = inf  # the rate after the first of several rejections in quick succession
        self._calls = self._seen = 0  # calls since `_top` was set, and rejections among them
        self._share = 0.0
        self._gap = 0.0  # recent number of calls between two rejections
        self._noise = 0.0
        self._trial_after: float = TRIAL_AFTER  # calls in a row that must succeed before a trial
        self._base = 0.0  # the rate at which the last trial began; 0 if unknown
        self._failed_at = -inf  # when the last trial ended in a rejection
        self._hold = 0.0  # seconds to wait; 0 if calls succeed
        self._held_at = -inf  # since when no call has succeeded
        self._tried_at: float | None = None  # when the probe after a wait began
        self._period: list[float] = []  # start, calls, rejections, and the previous period's rate

    def begin(self, now: float, is_used: bool) -> None:
        """Record the start of a call.

        `is_used` is true if calls begin as fast as the rate allows, and false if fewer calls are
        made.
        """
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
            if self._clean == self._trial_after:
                self._base = self.value
            if self._clean * self._noise > SURE:
                self._noise = 0.0
            if self.value >= self._top or self._clean * self._share > SURE:
                self._top = inf  # slowing down has helped
            self.value *= 1.0 + self._climb()

    @property
    def pause(self) -> float:
        """The seconds for which no call may begin because the outcome of a probe is awaited."""
        return PATIENT * min(self._lag, LONGEST_LAG) if self._hold else 0.0

    def _release(self, tried_at: float) -> None:
        """End the phase of single probes after a successful one, and measure the new rate."""
        began, calls, refused, last = self._period
        self._hold, self._tried_at = 0.0, None
        passed, seconds = calls - refused - 1, tried_at - began
        was_held = tried_at - self._held_at > MOSTLY * seconds
        is_trials = not was_held and self._held_at - self._failed_at < LOOK_BACK
        if passed < LEAST_SAMPLE or seconds < SHORTEST_SPAN or is_trials:
            return
        rate = passed / seconds
        is_near = bool(last) and rate >= NEAR * self.value
        self._is_found = was_held or is_near or abs(rate - last) <= ALIKE * rate
        if was_held and seconds > LONG_PERIOD:
            self._trial_after = max(self._trial_after, TRIAL_PERIODS * passed)
        self._is_measured, self.value = True, max(LOWEST, BELOW * min(self.value, rate))
        self._since, self._eased_at, self._clean = tried_at, tried_at, 0
        self._base = 0.0
        self._period = [tried_at, 1, 0, rate]
        if was_held:
            self._top = inf

    def refuse(self, began: float, now: float) -> float:
        """Record a rejection of a call that began at the time `began`.

        Return the seconds for which no call may begin: 0.0 unless every call is rejected.
        """
        insort(self._refused, began)
        _forget(self._refused, now)
        _forget(self._begun, now)
        self._period[2] += 1
        self._lag += (now - began - self._lag) * (0.1 if self._lag else 1)
        self._seen += began > self._top_at
        if began <= self._eased_at:
            return 0.0  # the call began before the rate was lowered
        is_first = self.value == inf
        passed, refused, since = self._got_through(self._since, began)
        share = refused / (passed + refused)
        rate = passed / max(began - since, SHORTEST_SPAN)
        is_small = passed + refused < LEAST_SAMPLE
        if passed and self._noise and (is_small or share <= 2 * self._noise + 0.03):
            self._clean = 0
            self.value *= 1.02
            if passed >= LEAST_SAMPLE:
                attempted = rate / (1.0 - self._noise)  # without this call
                self.value = min(self.value, 2.0 * attempted)
            return 0.0
        if is_first and passed < LEAST_SAMPLE and refused == 1:
            return 0.0  # a single rejection is no evidence of a limit
        self._gap += (self._clean - self._gap) * 0.2
        if self._clean >= self._trial_after:
            self._trial_after *= TRIAL_FACTOR
            self._failed_at, self._top = now, inf
            if self.value <= TRIAL_SUCCESS * self._base:
                self.value = max(self._base, TRIAL_KEPT * self.value)
                self._eased_at, self._clean = now, 0
                return 0.0
            self._is_found = False
        nothing = not self._got_through(self._eased_at, began)[0]
        if is_first:
            self._top = inf
        self._share = self._seen / max(1, self._seen, self._calls)
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
        if self.value < self._base / 2:  # this is not the limit that the trials reached
            self._trial_after, self._base = TRIAL_AFTER, 0.0
        if self._top == inf and not is_first:  # the first successes used saved-up quota
            self._top, self._top_at, self._gap = self.value / BELOW, now, 0.0
            self._calls = self._seen = 0
        self._eased_at, self._clean, self._tried_at = now, 0, None
        if nothing:
            self._held_at = self._held_at if self._hold else began
            self._hold = min(2.0 * self._hold or max(LEAST_HOLD, self._lag), LONGEST_HOLD)
        return self._hold

    def _got_through(self, since: float, began: float) -> tuple[int, int, float]:
        """Count accepted and rejected calls; return both numbers and the first call's start time.

        Only calls that began after `since`, and no later than the rejected call (`began`), are
        counted: the outcome of later calls is not known yet.
        """
        first = bisect_right(self._begun, since)
        calls = bisect_right(self._begun, began) - first
        refused = bisect_right(self._refused, began) - bisect_right(self._refused, since)
        start = self._begun[first] if calls > 0 else began
        return max(0, max(1, calls) - refused), refused, max(since, start)

    def _climb(self) -> float:
        """Return the fraction by which a call increases the rate (0.01: by 1 %)."""
        if not self._is_measured:
            return GUESS_CLIMB
        blind = self.value * min(self._lag, LONGEST_LAG)  # in calls
        most = BLIND_CLIMB / max(blind, 1e-9)
        if self._clean >= self._trial_after:
            return min(GUESS_CLIMB, log(2) / TRIAL_DOUBLING / self.value, most)
        if self._noise or not self._is_found:
            return min(SEARCH_CLIMB, most)
        return CLIMB / PATIENCE * min(2.0 ** (self._clean // PATIENCE), FASTEST)


def _forget(times: deque[float], now: float) -> None:
    while times and times[0] < now - LOOK_BACK:
        times.popleft()

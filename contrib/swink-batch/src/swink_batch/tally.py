"""Statistics of a run: counts, tokens, cost, latency. The statistics need constant memory."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from math import exp, log

from attrs import define, field

from swink_batch.answers import Answer

__all__ = ["Latency", "Tally"]

FINENESS = 0.1
"""The approximate width of a bin of the latency histogram, as a fraction of the latency."""

SHORTEST = 0.001
"""The minimum latency in seconds; lower values are rounded up."""

MOST_POINTS = 240
"""The maximum number of points in the time series; when exceeded, every second one is dropped."""

RATE_SECONDS = 30.0
"""The current rate is measured over this many past seconds."""


@define
class Latency:
    """A histogram of durations."""

    classes: Counter[int] = field(factory=Counter)

    def add(self, seconds: float) -> None:
        """Count an answer."""
        self.classes[round(log(max(seconds, SHORTEST) / SHORTEST) / FINENESS)] += 1

    def quantile(self, share: float) -> float | None:
        """Return the seconds within which this share of answers arrived; `None` without answers."""
        count = sum(self.classes.values())
        below = 0
        for number in sorted(self.classes):
            below += self.classes[number]
            if below >= share * count:
                return SHORTEST * exp(number * FINENESS)
        return None


@define
class Tally:
    """The state of a run, and its report at the end.

    `total` is the number of rows (`None`: unknown before the end). `answered` and `failed` count
    rows of this run, `kept` and `kept_failed` count rows whose results come from earlier runs and
    which were not sent again. `kinds` counts failures by kind, and `told` has the first message of
    each kind; `models` counts answers by model. `cost` is the cost of this run in US dollars,
    `kept_cost` is the cost of earlier runs; `estimated` is the part of `cost` for which the
    provider reported no usage; `unpriced` counts answers without a known cost. `stopped` explains
    why the run ended before the last row, with advice in a second line if possible.
    """

    began: float
    total: int | None = None
    answered: int = 0
    failed: int = 0
    kept: int = 0
    kept_failed: int = 0
    under_way: int = 0
    refused: int = 0
    retries: int = 0
    kinds: Counter[str] = field(factory=Counter)
    told: dict[str, str] = field(factory=dict)
    models: Counter[str] = field(factory=Counter)
    tokens: Counter[str] = field(factory=Counter)
    cost: float = 0.0
    kept_cost: float = 0.0
    estimated: float = 0.0
    unpriced: int = 0
    latency: Latency = field(factory=Latency)
    stopped: str | None = None
    on_stop: Callable[[], object] | None = field(default=None, repr=False)
    held: Callable[[], float | None] | None = field(default=None, repr=False)
    now: float = 0.0
    course: list[tuple[float, int]] = field(factory=list, repr=False)
    """Pairs of a time in seconds and the number of rows done by then."""
    _step: float = field(default=0.25, repr=False)
    _past: deque[tuple[float, int]] = field(factory=deque, repr=False)

    def stop(self, why: str) -> None:
        """Read no further rows; calls in progress continue. `why` is the reason, for the report."""
        if self.stopped is None:
            self.stopped = why
            if self.on_stop is not None:
                self.on_stop()

    def add(self, answer: Answer, now: float) -> None:
        """Count the result of a row."""
        if answer.error is None:
            self.answered += 1
            self.models[answer.model] += 1
            self.latency.add(answer.seconds)
        else:
            self.failed += 1
            self.kinds[answer.error.kind] += 1
            self.told.setdefault(answer.error.kind, answer.error.message)
        self.retries += max(0, answer.attempts - 1)
        for name, count in answer.usage.items():
            self.tokens[name] += count
        if answer.cost is not None:
            self.cost += answer.cost
            self.estimated += answer.cost if answer.estimated else 0.0
        elif answer.usage:
            self.unpriced += 1
        self.now = now
        if not self._past or now - self._past[-1][0] >= 0.25:
            self._past.append((now, self.done))
            while now - self._past[0][0] > RATE_SECONDS:
                self._past.popleft()
        if not self.course or self.seconds - self.course[-1][0] >= self._step:
            self.course.append((self.seconds, self.done))
            if len(self.course) > MOST_POINTS:
                self.course, self._step = self.course[1::2], self._step * 2

    @property
    def done(self) -> int:
        """The number of rows that were answered or failed in this run."""
        return self.answered + self.failed

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return max(self.now - self.began, 1e-9)

    @property
    def rate(self) -> float:
        """The current rate in rows per second."""
        if len(self._past) < 2 or self.now <= self._past[0][0]:
            return self.done / self.seconds
        return (self.done - self._past[0][1]) / (self.now - self._past[0][0])

    @property
    def held_to(self) -> float | None:
        """The calls per second to which rate limits restrict the run; `None` if they do not.

        While a rate limit allows no call, the value is 0.
        """
        return None if self.held is None else self.held()

    @property
    def left(self) -> float | None:
        """The estimated seconds until the last row is done; `None` if unknown."""
        if self.total is None or not self.rate:
            return None
        return max(0, self.total - self.kept - self.kept_failed - self.done) / self.rate

"""The calls of a feed, as rows for display."""

from __future__ import annotations

from typing import Any

import msgspec
from attrs import define, field
from msgspec import UNSET, UnsetType

__all__ = ["Calls", "Row"]

MOST_ENDED = 50
"""The maximum number of finished calls in the table."""


class _Told(msgspec.Struct):
    """The fields of a record that a row uses. A missing field is `UNSET`."""

    call: str | None = None
    age: float | UnsetType = UNSET
    model: str | UnsetType = UNSET
    first: float | UnsetType | None = UNSET
    output: int | UnsetType | None = UNSET
    rate: float | UnsetType | None = UNSET
    retries: int | UnsetType = UNSET
    cost: float | UnsetType | None = UNSET
    kind: str | None = None
    stop: str | None = None
    cached: bool = False


_FACTS = ("model", "first", "output", "rate", "retries", "cost")


@define
class Row:
    """One call. Times are in seconds, cost in US dollars; `None` means unknown."""

    model: str
    age: float
    seen: float
    """The time, by the reader's clock, at which a record last reported the call's `age`."""
    first: float | None = None
    output: int | None = None
    rate: float | None = None
    retries: int = 0
    cost: float | None = None
    end: str | None = None

    def age_at(self, now: float) -> float:
        """Return the duration so far, or the total duration of a finished call."""
        return self.age if self.end is not None else self.age + now - self.seen


@define
class Calls:
    """Builds the rows of calls from the records of a feed. `spent` is the spending by key owner."""

    spent: list[dict[str, Any]] = field(factory=list)
    _running: dict[str, Row] = field(factory=dict)
    _ended: dict[str, Row] = field(factory=dict)

    def take(self, name: str, data: dict[str, Any], now: float) -> None:
        """Process a record that arrived at the time `now` of the reader's clock.

        Raises ValueError if a value in the record has the wrong type.
        """
        if name == "gap":  # a lost record may be the end of a call; running calls will reappear
            self._running.clear()
        told = msgspec.convert(data, _Told)
        if told.call is None:
            return
        row = self._running.setdefault(told.call, Row("", 0.0, now))
        if told.age is not UNSET:
            row.age = told.age
            row.seen = now
        for fact in _FACTS:
            value = getattr(told, fact)
            if value is not UNSET:
                setattr(row, fact, value)
        if name == "retry":
            row.first = row.rate = None
        elif name == "end":
            row.end = told.kind or ("cached" if told.cached else told.stop)
            if row.end is None:
                raise ValueError("a call ends without a reason")
            self._ended[told.call] = self._running.pop(told.call)
            if len(self._ended) > MOST_ENDED:
                del self._ended[next(iter(self._ended))]

    def rows(self) -> list[Row]:
        """Return the running calls, oldest first, and then the finished calls, latest first."""
        return [*self._running.values(), *reversed(self._ended.values())]

    @property
    def running(self) -> int:
        """The number of running calls."""
        return len(self._running)

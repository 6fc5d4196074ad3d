"""Sum up usage and cost of calls by day and model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from swink_cli.summary import amount, money
from swink_recorder.entries import Entry

__all__ = ["Sum", "costs_cells", "summed", "sums"]


class Sum(msgspec.Struct):
    """The total usage of a group of calls.

    `cost` is the sum of the known costs in US dollars; `estimated` is the part of the cost
    for which the provider reported no usage; `unpriced` counts the calls without a known cost.
    `day` is in local time; an empty `day` or `model` means that the sum covers all days or all
    models.
    """

    day: str = ""
    model: str = ""
    calls: int = 0
    input: int = 0
    output: int = 0
    cost: float = 0.0
    estimated: float = 0.0
    unpriced: int = 0

    def add(self, other: Sum) -> None:
        """Add the usage of another sum."""
        self.calls += other.calls
        self.input += other.input
        self.output += other.output
        self.cost += other.cost
        self.estimated += other.estimated
        self.unpriced += other.unpriced


def sums(entries: Iterable[Entry], by: str | None, days: int | None) -> list[Sum]:
    """Sum up calls by day and model; newest day and highest cost first.

    With `by`, calls are summed up by `day` or `model` alone. Calls older than `days` are omitted
    (`None`: all calls are included).
    """
    today = datetime.now().astimezone().date()
    found: dict[tuple[str, str], Sum] = {}
    for entry in entries:
        day = datetime.fromisoformat(entry.at).astimezone().date()
        if days is not None and day <= today - timedelta(days=days):
            continue
        key = "" if by == "model" else str(day), "" if by == "day" else entry.model
        took = Sum(
            calls=1,
            input=entry.input or 0,
            output=entry.output or 0,
            cost=entry.cost or 0.0,
            estimated=(entry.cost or 0.0) if entry.estimated else 0.0,
            unpriced=int(entry.cost is None),
        )
        found.setdefault(key, Sum(*key)).add(took)
    dearest = sorted(found.values(), key=lambda one: (-one.cost, one.model))
    return sorted(dearest, key=lambda one: one.day, reverse=True)


def summed(rows: Iterable[Sum]) -> Sum:
    """Return the total of several sums."""
    whole = Sum("total")
    for row in rows:
        whole.add(row)
    return whole


def costs_cells(row: Sum | None, by: str | None) -> Sequence[str]:
    """Return the cells of a table row, or the headings if `row` is `None`."""
    if row is None:
        heads = ("DAY", "MODEL")
        numbers = ("CALLS", "TOKENS IN", "OUT", "COST")
    else:
        heads = (row.day, row.model)
        cost = money(row.cost) if row.unpriced < row.calls else "-"
        if row.estimated:
            cost += f" ({money(row.estimated)} estimated)"
        least = f" ({row.unpriced} of unknown cost)" if 0 < row.unpriced < row.calls else ""
        numbers = (amount(row.calls), amount(row.input), amount(row.output), cost + least)
    shown = heads if by is None else (heads[0] or heads[1],) if row else (heads[by == "model"],)
    return (*shown, *numbers)

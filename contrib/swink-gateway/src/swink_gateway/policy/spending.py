"""Spending reports: parse the query, and format the result as JSON or CSV.

The command `swink spend` and the routes below `/v1/spending` both use this module.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from attrs import asdict, evolve
from msgspec import to_builtins

from swink_core import UsageError
from swink_gateway.policy.limits import DIMENSIONS, Entry, Findings, Query, Total

__all__ = ["COST_DIGITS", "FILTERS", "audit_of", "csv_of", "only_of", "query_of", "rows_of"]

FILTERS = (
    *(name for name in DIMENSIONS if name not in ("day", "month")),
    "call",
    "request_id",
)
"""The fields of rows by which a report can be filtered."""

_DAY, _MONTH = "%Y-%m-%d", "%Y-%m"

COST_DIGITS = 9
"""The number of decimals of dollar amounts in reports.

Nine decimals are enough for the price of one token, and hide rounding errors of sums.
"""


def query_of(
    by: str = "key",
    since: str | None = None,
    until: str | None = None,
    where: Mapping[str, Iterable[str]] | None = None,
) -> Query:
    """Return the query for a report from `since` to `until`, both included.

    `since` and `until` are days or months, such as `2026-11-25` or `2026-11`. `by` contains
    dimensions, separated by commas. Raises UsageError for an unknown dimension.
    """
    names = tuple(name.strip() for name in by.split(",") if name.strip())
    for name in names:
        if name not in DIMENSIONS:
            raise UsageError(
                f"spending cannot be summed by {name!r:.100}",
                resolution=f"Write some of {', '.join(DIMENSIONS)}, separated by commas.",
            )
    return Query(
        by=tuple(dict.fromkeys(names)),
        since=None if since is None else _period(since)[0],
        until=None if until is None else _period(until)[1],
        where={name: frozenset(values) for name, values in (where or {}).items() if [*values]},
    )


def only_of(query: Query, owner: str) -> Query:
    """Return a query limited to the rows of one key."""
    return evolve(query, where={**query.where, "key": frozenset({owner})})


def _period(text: str) -> tuple[float, float]:
    for form in (_DAY, _MONTH):
        try:
            begin = datetime.strptime(text, form).replace(tzinfo=UTC)
            end = begin + timedelta(days=1)
            if form == _MONTH:
                end = (begin + timedelta(days=32)).replace(day=1)
        except (ValueError, OverflowError):  # the latter after the last month of the calendar
            continue
        return begin.timestamp(), end.timestamp()
    raise UsageError(
        f"{text!r:.100} is neither a day nor a month",
        resolution="Write 2026-11-25 or 2026-11; days are those of UTC.",
    )


def rows_of(found: Sequence[Total] | Sequence[Entry]) -> list[dict[str, Any]]:
    """Return sums, or rows of the ledger, as flat dictionaries."""
    rows = []
    for one in found:
        row: dict[str, Any] = to_builtins(one)
        by = row.pop("by", {})
        if isinstance(one, Entry):
            row["at"] = datetime.fromtimestamp(one.at, UTC).isoformat(timespec="milliseconds")
            row["estimated"] = bool(one.estimated)
        for name in ("cost", "reserved", "estimated"):
            if isinstance(row.get(name), float):
                row[name] = round(row[name], COST_DIGITS) + 0.0  # avoids -0.0
        rows.append({**by, **row})
    return rows


def audit_of(found: Findings) -> dict[str, Any]:
    """Return the findings of an audit as JSON data."""
    return {
        "unsettled": rows_of(found.unsettled),
        "differences": [asdict(one) for one in found.differences],
    }


def csv_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Format rows as CSV (RFC 4180) with a header line; an empty string for no rows.

    A value that a spreadsheet could take for a formula gets an apostrophe in front.
    """
    if not rows:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, [*rows[0]], lineterminator="\r\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue()


def _cell(value: Any) -> Any:
    is_formula = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if is_formula else value

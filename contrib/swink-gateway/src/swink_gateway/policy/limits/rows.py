"""The rows of the ledger: one per attempt, first with the reservation, then with the charge.

Rows of attempts that were sent are never deleted, so that the spending of all months can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

from attrs import define
from msgspec import Struct
from msgspec.structs import astuple

from swink_core import UsageError
from swink_gateway.policy.limits.database import Execute

__all__ = [
    "DIMENSIONS",
    "LEAST",
    "NOT_SENT",
    "RESERVED",
    "SCHEMA",
    "TAG_SEPARATOR",
    "Entry",
    "Query",
    "Total",
    "begin_of",
    "entries_in",
    "new_id",
    "periods",
    "report_in",
    "write",
]

RESERVED = "reserved"
"""The outcome of a running attempt, or of an attempt whose process died before settling it."""

NOT_SENT = "not sent"
"""The outcome of a reservation for which no attempt began; the row is deleted."""

DIMENSIONS = ("key", "team", "tag", "model", "account", "outcome", "day", "month")
"""The dimensions by which spending can be grouped. Days and months are in UTC."""

LEAST = 1e-9
"""US dollars below which a difference of sums counts as a rounding error."""

MOST_ENTRIES = 20_000
"""The maximum number of rows that a query may list: they take 40 MB while they are formatted.

It is also the maximum number of groups of a sum, because clients choose the tags of attempts.
"""


class Entry(Struct):
    """A row of the ledger: an attempt of a call, or the reservation for one.

    `at` is the Unix time of the reservation in seconds. `call` is the id of the call, as in the
    access log, and `request_id` is the provider's id for the request. `account` is the path, in the
    configuration file, of the options that were used, such as `routes.best.tiers[0][1]`, or else
    the provider's name. The five token counts are those that the provider reported (`None`: not
    reported). The key is charged `tokens` and `cost` (US dollars); `cost` is `None` for a model
    without a price. `reserved` is the cost in US dollars that was reserved for the attempt.
    `latency` and `first_token` are seconds since the attempt began.
    """

    id: str = ""
    at: float = 0.0
    key: str = ""
    team: str = ""
    tags: str = ""
    model: str = ""
    account: str = ""
    call: str = ""
    request_id: str | None = None
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    tokens: int = 0
    cost: float | None = None
    reserved: float | None = None
    estimated: int = 1
    outcome: str = RESERVED
    latency: float | None = None
    first_token: float | None = None
    process: str = ""


COLUMNS = Entry.__struct_fields__

SCHEMA = """
CREATE TABLE IF NOT EXISTS attempts (
  id TEXT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, key TEXT NOT NULL, team TEXT NOT NULL,
  tags TEXT NOT NULL, model TEXT NOT NULL, account TEXT NOT NULL, call TEXT NOT NULL,
  request_id TEXT, input BIGINT, output BIGINT, cache_read BIGINT, cache_write BIGINT,
  reasoning BIGINT, tokens BIGINT NOT NULL, cost DOUBLE PRECISION, reserved DOUBLE PRECISION,
  estimated INTEGER NOT NULL,
  outcome TEXT NOT NULL, latency DOUBLE PRECISION, first_token DOUBLE PRECISION,
  process TEXT NOT NULL
)
"""
"""The ids of rows begin with the time, so that rows of a period are stored together."""

WRITE = (
    f"INSERT INTO attempts ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{c} = excluded.{c}' for c in COLUMNS[1:])}"
)

DELETE = "DELETE FROM attempts WHERE id = ?"

TAG_SEPARATOR = ","


def new_id(at: float) -> str:
    """Return an id for a row; later ids are greater. `at` is a Unix time."""
    return f"{int(at * 1e9):016x}{token_hex(4)}"


def periods(at: float) -> tuple[str, str]:
    """Return the day and the month of a Unix time, such as `2026-11-25` and `2026-11`."""
    date = datetime.fromtimestamp(at, UTC)
    return f"{date:%Y-%m-%d}", f"{date:%Y-%m}"


def begin_of(period: str) -> float:
    """Return the Unix time in seconds at which a day or a month begins."""
    date = f"{period}-01" if len(period) == len("2026-01") else period
    return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()


def write(execute: Execute, entries: Iterable[Entry]) -> None:
    """Insert or update rows, within a transaction."""
    for entry in entries:
        if entry.outcome == NOT_SENT:
            execute(DELETE, (entry.id,))
        else:
            execute(WRITE, astuple(entry))


# -- reading ---------------------------------------------------------------------------------------


@define(frozen=True, kw_only=True)
class Query:
    """The selection and grouping of rows for a report.

    `since` and `until` are Unix times in seconds, `until` excluded; `None` means no limit. `where`
    maps columns, or the dimension `tag`, to the values to include.
    """

    by: tuple[str, ...] = ()
    since: float | None = None
    until: float | None = None
    where: Mapping[str, frozenset[str]] = {}


class Total(Struct, kw_only=True):
    """The sum of the rows with the same values in `by`, which maps dimensions to values.

    `estimated` is the part of `cost` that is an estimate, and `unsettled` the number of attempts
    that are running, or were running when their process died.
    """

    by: dict[str, str]
    attempts: int = 0
    tokens: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    cost: float = 0.0
    estimated: float = 0.0
    unsettled: int = 0


_SUMS = (
    "count(*), coalesce(sum(tokens), 0), coalesce(sum(input), 0), coalesce(sum(output), 0), "
    "coalesce(sum(cache_read), 0), coalesce(sum(cache_write), 0), coalesce(sum(reasoning), 0), "
    "coalesce(sum(cost), 0.0), coalesce(sum(CASE WHEN estimated = 1 THEN cost END), 0.0), "
    f"coalesce(sum(CASE WHEN outcome = '{RESERVED}' THEN 1 ELSE 0 END), 0)"
)

_SECONDS_A_DAY = 86400

_COLUMN_OF = {
    "tag": "tags",
    "day": f"CAST(floor(at / {_SECONDS_A_DAY}) AS INTEGER)",
    "month": f"CAST(floor(at / {_SECONDS_A_DAY}) AS INTEGER)",
}
"""The SQL expressions to group by, for dimensions that are not columns."""

_LISTED = f"'{TAG_SEPARATOR}' || tags || '{TAG_SEPARATOR}'"

_HAS_TAG = f"replace({_LISTED}, ?, '') <> {_LISTED}"
"""The condition for a tag: all engines have `replace`, which compares the case of letters too."""


def report_in(execute: Execute, query: Query) -> list[Total]:
    """Return the sums for a query, sorted by the values of the dimensions.

    Raises UsageError for too many groups.
    """
    columns = [_COLUMN_OF.get(name, name) for name in query.by]
    condition, values = _condition(query)
    grouping = ", ".join(map(str, range(1, len(columns) + 1)))
    statement = f"SELECT {', '.join([*columns, _SUMS])} FROM attempts{condition}"
    if columns:
        statement += f" GROUP BY {grouping} LIMIT {MOST_ENTRIES + 1}"
    found: dict[tuple[str, ...], Total] = {}
    wanted = query.where.get("tag")
    for number, row in enumerate(execute(statement, values), 1):
        if row[len(columns)] == 0:  # the group is empty
            continue
        for named in _values(query.by, row, wanted):
            total = found.setdefault(named, Total(by=dict(zip(query.by, named, strict=True))))
            for field, amount in zip(Total.__struct_fields__[1:], row[len(columns) :], strict=True):
                setattr(total, field, getattr(total, field) + type(getattr(total, field))(amount))
        if max(number, len(found)) > MOST_ENTRIES:
            raise UsageError(
                f"the sums have more than {MOST_ENTRIES:,} groups",
                resolution="Choose a shorter period, or fewer dimensions.",
            )
    return [found[named] for named in sorted(found)]


def entries_in(execute: Execute, query: Query) -> list[Entry]:
    """Return the rows for a query, the oldest first. Raises UsageError for too many rows."""
    condition, values = _condition(query)
    statement = f"SELECT {', '.join(COLUMNS)} FROM attempts{condition} ORDER BY id"
    found = [Entry(*row) for row in execute(f"{statement} LIMIT {MOST_ENTRIES + 1}", values)]
    if len(found) > MOST_ENTRIES:
        raise UsageError(
            f"the period has more than {MOST_ENTRIES:,} attempts",
            resolution="Choose a shorter period, or one key, team, tag or model.",
        )
    return found


def _condition(query: Query) -> tuple[str, list[Any]]:
    parts: list[str] = []
    values: list[Any] = []
    if query.since is not None:
        parts += ["at >= ?", "id >= ?"]
        values += [query.since, f"{int(query.since * 1e9):016x}"]
    if query.until is not None:
        parts += ["at < ?", "id < ?"]
        values += [query.until, f"{int(query.until * 1e9):016x}~"]
    for name, wanted in query.where.items():
        options = sorted(wanted)
        if name == "tag":
            parts.append("(" + " OR ".join([_HAS_TAG] * len(options) or ["1 = 0"]) + ")")
            values += [f"{TAG_SEPARATOR}{tag}{TAG_SEPARATOR}" for tag in options]
        else:
            parts.append(f"{name} IN ({', '.join('?' * len(options))})" if options else "1 = 0")
            values += options
    return (f" WHERE {' AND '.join(parts)}" if parts else ""), values


def _values(
    by: Sequence[str], row: Sequence[Any], tags: frozenset[str] | None
) -> list[tuple[str, ...]]:
    """Return tuples with the values of a group's dimensions: one tuple for each tag."""
    found: list[tuple[str, ...]] = [()]
    for name, value in zip(by, row, strict=False):
        if name == "tag":
            options = [tag for tag in value.split(TAG_SEPARATOR) if tags is None or tag in tags]
        elif name in ("day", "month"):
            day, month = periods(value * _SECONDS_A_DAY)
            options = [day if name == "day" else month]
        else:
            options = [str(value)]
        found = [(*before, option) for before in found for option in options]
    return found

"""The SQLite file of a ledger: how it is opened, and how files of before get their first rows."""

from __future__ import annotations

import sqlite3
from datetime import UTC, datetime
from pathlib import Path

from msgspec import msgpack

from swink_gateway.policy.limits.account import Account
from swink_gateway.policy.limits.ledger import StoreError
from swink_gateway.policy.limits.rows import SCHEMA, Entry, new_id, write

__all__ = ["CARRIED_OVER", "LOCK_SECONDS", "cannot_be_kept", "carry_over", "open_rows"]

LOCK_SECONDS = 5.0
"""For which a process waits while the others write."""

CARRIED_OVER = "carried over"
"""The outcome of a row for what was spent before the file had rows."""


def open_rows(path: Path) -> sqlite3.Connection:
    """Open the file of a ledger, which is made if it is missing. Raises StoreError."""
    try:
        database = sqlite3.connect(
            path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
        )
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        had_rows = database.execute(_HAS_ROWS).fetchone() is not None
        if not had_rows:
            database.execute(SCHEMA.rstrip() + " WITHOUT ROWID")
    except sqlite3.Error as error:
        raise cannot_be_kept(path, error) from error
    return database


_HAS_ROWS = "SELECT 1 FROM sqlite_master WHERE name = 'attempts'"


def cannot_be_kept(path: Path, error: sqlite3.Error) -> StoreError:
    """Return the error of a file that cannot be used."""
    return StoreError(
        f"limits cannot be kept in {path}: {error}",
        resolution="Give the path of a file that can be written, in a folder that is there.",
    )


def carry_over(database: sqlite3.Connection) -> None:
    """Write a row for what the budgets of a file without rows say, for each key and period.

    An earlier version kept the sums of a day and a month alone.
    """
    with database:
        database.execute("BEGIN IMMEDIATE")
        if database.execute("SELECT 1 FROM attempts LIMIT 1").fetchone() is not None:
            return
        for key, kept in database.execute("SELECT name, kept FROM accounts").fetchall():
            write(database, _rows_of(key, msgpack.decode(kept, type=Account).dollars))


def _rows_of(key: str, dollars: dict[str, float]) -> list[Entry]:
    days = {name: cost for name, cost in dollars.items() if len(name) == len("2026-01-31")}
    rows = []
    for name, cost in dollars.items():
        if name not in days:
            cost -= sum(paid for day, paid in days.items() if day.startswith(name))
        if abs(cost) > LEAST:
            at = _begin(name)
            row = Entry(id=new_id(at), at=at, key=key, cost=cost, outcome=CARRIED_OVER)
            rows.append(row)
    return rows


LEAST = 1e-9
"""US dollars below which a difference of sums is the rounding of numbers."""


def _begin(period: str) -> float:
    """Return when a day or a month begins, in seconds of the epoch."""
    date = f"{period}-01" if len(period) == len("2026-01") else period
    return datetime.fromisoformat(date).replace(tzinfo=UTC).timestamp()

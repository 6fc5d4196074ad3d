"""The ledger of one machine, in a SQLite file. Files of an earlier version are converted."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import msgpack

from swink_core.providers import Clock
from swink_gateway.policy.limits.account import Account
from swink_gateway.policy.limits.database import Execute
from swink_gateway.policy.limits.debts import is_running, process_name
from swink_gateway.policy.limits.ledger import StoreError, StoreUnavailable
from swink_gateway.policy.limits.rows import LEAST, SCHEMA, Entry, begin_of, new_id, write
from swink_gateway.policy.limits.sql import SQLLedger

__all__ = ["CARRIED_OVER", "SQLiteDatabase", "SQLiteLedger", "open_rows", "reading"]

LOCK_SECONDS = 5.0
"""The maximum number of seconds that a process waits while other processes write."""

CHECK_SECONDS = 1.0
"""The maximum number of seconds of the check of a file; a million rows take about as long."""

CHECK_STEPS = 1000
"""The time is compared after this many instructions of SQLite's virtual machine."""

DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""SQLite's codes for a file that is damaged or not a database."""

RESTORE = (
    "If the path is right, stop the gateway, remove the files with this name and -wal or -shm at "
    "the end, and restore the file from a backup."
)

PRIVATE = 0o600
"""The mode of a new file: it contains the names of keys and what they spend."""

CARRIED_OVER = "carried over"
"""The outcome of rows that were created from the sums in a file of an earlier version."""

_BUDGETS = """
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, kept BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ids (id TEXT PRIMARY KEY, owner TEXT);
CREATE TABLE IF NOT EXISTS breakers (name TEXT PRIMARY KEY, kept BLOB);
"""


class SQLiteDatabase:
    """A SQLite database at `path`; `None` means in memory."""

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)
    put = "REPLACE INTO {} (name, kept) VALUES (?, ?)"

    def __init__(self, path: Path | None) -> None:
        self.name = process_name()
        self._path = path
        if path is not None:
            with suppress(OSError):  # SQLite reports a file that cannot be created
                path.touch(mode=PRIVATE, exist_ok=False)
        self.connection = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=LOCK_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )
        self.execute = _execute_in(self.connection)

    @contextmanager
    def transaction(self, lock: str) -> Iterator[None]:
        with self.connection:
            self.connection.execute("BEGIN IMMEDIATE")  # locks out all other writers
            yield

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        if self._path is None:
            yield self.execute
            return
        with reading(self._path) as execute:
            yield execute

    def is_running(self, process: str) -> bool:
        return process == self.name or is_running(process)

    def close(self) -> None:
        self.connection.close()


@contextmanager
def reading(path: Path) -> Iterator[Execute]:
    """Open a file for reading while other processes write it.

    Raises StoreUnavailable if the file cannot be read.
    """
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            yield _execute_in(connection)
    except sqlite3.Error as error:
        resolution = RESTORE if _is_damaged(error) else ""
        why = f"the ledger cannot be read: {error}"
        raise StoreUnavailable(why, resolution=resolution) from error


def _execute_in(connection: sqlite3.Connection) -> Any:
    # SQLite may be built without math functions
    connection.create_function("floor", 1, lambda value: value // 1, deterministic=True)
    return connection.execute


def open_rows(path: Path | None) -> SQLiteDatabase:
    """Open a database with rows, and create it if it is missing; `None` means in memory.

    Raises StoreError if the file cannot be used or is damaged.
    """
    try:
        database = SQLiteDatabase(path)
    except sqlite3.Error as error:
        raise _not_usable(path, error) from error
    with _closed_if_not_usable(database, path):
        _check(database.connection)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(SCHEMA.rstrip() + " WITHOUT ROWID")
    return database


@contextmanager
def _closed_if_not_usable(database: SQLiteDatabase, path: Path | None) -> Iterator[None]:
    """Convert errors of a database to StoreError, and close the database."""
    try:
        yield
    except sqlite3.Error as error:
        database.close()
        raise _not_usable(path, error) from error


_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name = 'attempts'"
"""Selects the names of all tables; the table of the rows, which is the largest, is the last one."""


def _check(connection: sqlite3.Connection) -> None:
    """Search a file for damage, at most for CHECK_SECONDS.

    A file is damaged, for example, if a backup was restored beside the -wal file of a later one.
    Raises sqlite3.DatabaseError for a damaged file.
    """
    until = time.monotonic() + CHECK_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > until, CHECK_STEPS)
    try:
        for (name,) in connection.execute(_TABLES).fetchall():
            [(found,)] = connection.execute(f'PRAGMA quick_check("{name}")').fetchmany(1)
            if found != "ok":
                raise _damage(found)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
    finally:
        connection.set_progress_handler(None, 0)


def _damage(why: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(f"the file is damaged ({' '.join(why.split())})")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def _is_damaged(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in DAMAGED


class SQLiteLedger(SQLLedger):
    """A ledger in the file at `path`, which is created if it is missing.

    Raises StoreError if the file cannot be used.
    """

    def __init__(
        self, path: Path, clock: Clock | None = None, counters: Counter[str] | None = None
    ) -> None:
        database = open_rows(path)
        with _closed_if_not_usable(database, path):
            database.connection.executescript(_BUDGETS)
            _carry_over(database)
        super().__init__(database, clock, counters)


def _not_usable(path: Path | None, error: sqlite3.Error) -> StoreError:
    advice = "Give the path of a file that can be written, in a folder that is there."
    return StoreError(
        f"limits cannot be kept in {path}: {error}",
        resolution=RESTORE if _is_damaged(error) else advice,
    )


def _carry_over(database: SQLiteDatabase) -> None:
    """Create rows from the budgets in a file without rows, one per key and period.

    An earlier version stored only the sums of a day and a month.
    """
    with database.transaction("rows"):
        if database.execute("SELECT 1 FROM attempts LIMIT 1").fetchone() is not None:
            return
        for key, kept in database.execute("SELECT name, kept FROM accounts").fetchall():
            write(database.execute, _rows_of(key, msgpack.decode(kept, type=Account).dollars))


def _rows_of(key: str, dollars: dict[str, float]) -> list[Entry]:
    days = {name: cost for name, cost in dollars.items() if len(name) == len("2026-01-31")}
    rows = []
    for name, cost in dollars.items():
        if name not in days:
            cost -= sum(paid for day, paid in days.items() if day.startswith(name))
        if abs(cost) > LEAST:
            at = begin_of(name)
            row = Entry(id=new_id(at), at=at, key=key, cost=cost, outcome=CARRIED_OVER)
            rows.append(row)
    return rows

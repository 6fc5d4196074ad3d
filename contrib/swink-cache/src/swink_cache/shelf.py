"""The SQLite file of a cache. If the file is damaged, a new one is created."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from swink_recorder.sqlite_store import make_private

__all__ = ["Shelf"]

BUSY_SECONDS = 0.25
"""How many seconds a call waits at most for a file that another process has locked."""

T = TypeVar("T")

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, at REAL NOT NULL, "
    "used REAL NOT NULL, size INTEGER NOT NULL, data BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS answers_used ON answers (used, size)",
)

_LEAST_USED = "SELECT key, size FROM answers ORDER BY used LIMIT 1"


class Shelf:
    """Cached answers by key, valid for `ttl` seconds (`None`: without limit).

    If the answers take too much space, the least recently used ones are deleted. A damaged file is
    renamed, and a new one is created. All methods must be called in the same thread; the methods
    raise `sqlite3.Error` or OSError if the file cannot be read or written.
    """

    def __init__(
        self, path: Path, ttl: float | None, max_bytes: int, now: Callable[[], float] = time.time
    ) -> None:
        self.path = path
        self._ttl = ttl
        self._max_bytes = max_bytes
        self._now = now
        self._db: sqlite3.Connection | None = None

    def get(self, key: str) -> bytes | None:
        """Return an answer that has not expired, or `None`."""
        return self._mended(lambda db: self._get(db, key))

    def put(self, key: str, data: bytes) -> None:
        """Store an answer, and delete the least recently used ones if they take too much space."""
        if len(data) <= self._max_bytes:
            self._mended(lambda db: self._put(db, key, data))

    def forget(self, key: str) -> None:
        """Delete an answer."""
        self._mended(lambda db: _execute(db, "DELETE FROM answers WHERE key = ?", key))

    def close(self) -> None:
        """Close the file."""
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _get(self, db: sqlite3.Connection, key: str) -> bytes | None:
        oldest = self._now() - self._ttl if self._ttl is not None else 0.0
        query = "SELECT data FROM answers WHERE key = ? AND at >= ?"
        row = db.execute(query, (key, oldest)).fetchone()
        if row is None:
            return None
        with suppress(sqlite3.OperationalError):  # without write access, reading still works
            _execute(db, "UPDATE answers SET used = ? WHERE key = ?", self._now(), key)
        return bytes(row[0])

    def _put(self, db: sqlite3.Connection, key: str, data: bytes) -> None:
        now = self._now()
        with db:
            if self._ttl is not None:
                db.execute("DELETE FROM answers WHERE at < ?", (now - self._ttl,))
            row = (key, now, now, len(data), data)
            db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", row)
            (size,) = db.execute("SELECT sum(size) FROM answers").fetchone()
            while size > self._max_bytes:
                old, its_size = db.execute(_LEAST_USED).fetchone()
                db.execute("DELETE FROM answers WHERE key = ?", (old,))
                size -= its_size

    def _mended(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            return work(self._open())
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # not a database, or a damaged one
            self.close()
            for ending in ("", "-wal", "-shm"):
                file = self.path.with_name(self.path.name + ending)
                if file.exists():
                    file.replace(file.with_name(f"{file.name}.damaged"))
            return work(self._open())

    def _open(self) -> sqlite3.Connection:
        if self._db is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            make_private(self.path)
            db = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                for statement in _SCHEMA:
                    db.execute(statement)
            except BaseException:
                db.close()
                raise
            self._db = db
        return self._db


def _execute(db: sqlite3.Connection, statement: str, *values: object) -> None:
    with db:
        db.execute(statement, values)

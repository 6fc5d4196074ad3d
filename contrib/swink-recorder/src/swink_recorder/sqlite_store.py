"""`SQLiteStore`: calls and conversations in one SQLite file."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from swink_recorder.entries import (
    PRIVATE,
    Buffer,
    Entry,
    Keep,
    KeptConversation,
    Written,
    with_words,
)
from swink_recorder.recording import RecordingError

__all__ = ["SQLiteStore", "make_private"]

PAGE = 16_384
"""The page size of the database in bytes; large pages suit few but long rows."""

BUSY_SECONDS = 5.0
"""How many seconds a writer waits while another process has locked the file."""


_making = threading.Lock()


def make_private(path: Path) -> None:
    """Create a file that only its owner can read, if it does not exist.

    An existing file is not opened: when any descriptor of a file is closed, POSIX drops the locks
    that SQLite holds on it for other connections of the process, and two processes could write at
    the same time (https://www.sqlite.org/howtocorrupt.html, section 2.2).
    """
    with _making, suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, PRIVATE))


class SQLiteStore:
    """A SQLite file with a row for each call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, calls: Sequence[Written]) -> None:
        """Store calls, all in one transaction."""
        with self._used(made=True) as db:
            db.execute(_DROP_WORDS)
            for entry, document in calls:
                if db.execute("SELECT 1 FROM calls WHERE id = ?", (entry.id,)).fetchone():
                    self._delete(db, "id = ?", entry.id)
                self._add(db, entry, document)

    def _add(self, db: sqlite3.Connection, entry: Entry, document: Sequence[Buffer]) -> None:
        size, told = sum(map(len, document)), msgspec.json.encode(entry).decode()
        number = db.execute(
            "INSERT INTO calls (id, at, entry, size, conversation) VALUES (?, ?, ?, ?, ?)",
            (entry.id, _moment(entry.at), told, size, entry.conversation),
        ).lastrowid
        rows = [(number, part) for part in document]
        db.executemany("INSERT INTO parts (call, data) VALUES (?, ?)", rows)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of all calls, newest first."""
        if self.path.exists():
            with self._used() as db:
                rows = "SELECT entry FROM calls ORDER BY at DESC, number DESC"
                for (entry,) in db.execute(rows):
                    yield msgspec.json.decode(entry, type=Entry)

    def search(self, words: Sequence[str]) -> Iterator[Entry]:
        """Yield the entries of calls with all `words` in prompt or answer, newest first."""
        yield from with_words(self.entries(), words)

    def read(self, id: str) -> bytes:
        """Return the stored document of the call `id`."""
        with self._used() as db:
            rows = db.execute(
                "SELECT data FROM parts JOIN calls ON calls.number = parts.call "
                "WHERE calls.id = ? ORDER BY parts.number",
                (id,),
            ).fetchall()
        if not rows:
            raise FileNotFoundError(id)
        return b"".join(data for (data,) in rows)

    def keep_conversation(self, kept: KeptConversation, context: bytes) -> None:
        """Store the current state of a conversation, replacing the earlier one."""
        with self._used(made=True) as db:
            row = (kept.id, _moment(kept.at), msgspec.json.encode(kept).decode(), context)
            db.execute("INSERT OR REPLACE INTO conversations VALUES (?, ?, ?, ?)", row)

    def conversations(self) -> Iterator[KeptConversation]:
        """Yield the conversations, the most recently continued first."""
        if self.path.exists():
            with self._used() as db:
                for (kept,) in db.execute("SELECT kept FROM conversations ORDER BY at DESC"):
                    yield msgspec.json.decode(kept, type=KeptConversation)

    def read_conversation(self, id: str) -> bytes:
        """Return the stored conversation `id`, as JSON text."""
        with self._used() as db:
            found = db.execute("SELECT context FROM conversations WHERE id = ?", (id,)).fetchone()
        if found is None:
            raise FileNotFoundError(id)
        context: bytes = found[0]
        return context

    def delete(self, id: str) -> None:
        """Delete a call; deleting the last call of a conversation deletes the conversation."""
        with self._used() as db:
            self._delete(db, "id = ?", id)

    def prune(self, keep: Keep) -> None:
        """Delete calls beyond the retention limits."""
        with self._used() as db:
            size = 0
            rows = "SELECT number, at, size FROM calls ORDER BY at DESC, number DESC"
            for rank, (number, at, length) in enumerate(db.execute(rows).fetchall()):
                size += length
                if keep.is_over(rank, size, at):
                    self._delete(db, "number = ?", number)

    def _delete(self, db: sqlite3.Connection, which: str, value: Any) -> None:
        db.execute(_DROP_WORDS)
        old = f"SELECT number FROM calls WHERE {which}"
        db.execute(f"DELETE FROM parts WHERE call IN ({old})", (value,))
        of = f"SELECT conversation FROM calls WHERE {which}"
        conversations = db.execute(f"{of} AND conversation != ''", (value,)).fetchall()
        db.execute(f"DELETE FROM calls WHERE {which}", (value,))
        for conversation in conversations:
            db.execute(
                "DELETE FROM conversations WHERE id = ? "
                "AND id NOT IN (SELECT conversation FROM calls)",
                conversation,
            )

    @contextmanager
    def _used(self, made: bool = False) -> Iterator[sqlite3.Connection]:
        """Open the file for a transaction. Raises RecordingError for errors of SQLite."""
        if made:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private(self.path)  # further files of SQLite get the same permissions
        elif not self.path.exists():
            raise FileNotFoundError(self.path)
        try:
            # lock for writing first: two readers that want to write would wait for each other
            opened = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level="IMMEDIATE")
            with closing(opened) as db, db:
                self._prepare(db)
                yield db
        except (sqlite3.Error, msgspec.DecodeError) as error:
            in_use = isinstance(error, sqlite3.OperationalError)
            raise RecordingError(
                f"{self.path}: {error}",
                title="The store cannot be used" if in_use else "Broken store",
                resolution="Check that its disk has room and that no other program locks it."
                if in_use
                else "Restore the file, or record calls in another one.",
            ) from error

    def _prepare(self, db: sqlite3.Connection) -> None:
        if not _has(db, "calls"):
            db.execute(f"PRAGMA page_size = {PAGE}")
            with db:
                db.execute("BEGIN IMMEDIATE")
                for statement in _SCHEMA:
                    db.execute(statement)


_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS calls (number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "
    "at REAL NOT NULL, entry TEXT NOT NULL, size INTEGER NOT NULL, conversation TEXT NOT NULL)",
    "CREATE INDEX IF NOT EXISTS calls_at ON calls (at)",
    "CREATE TABLE IF NOT EXISTS parts (number INTEGER PRIMARY KEY, call INTEGER NOT NULL, "
    "data BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS parts_of ON parts (call)",
    "CREATE INDEX IF NOT EXISTS calls_of ON calls (conversation)",
    "CREATE TABLE IF NOT EXISTS conversations (id TEXT PRIMARY KEY, at REAL NOT NULL, "
    "kept TEXT NOT NULL, context BLOB NOT NULL)",
)

_DROP_WORDS = "DROP TABLE IF EXISTS words"
"""Deletes the full-text index, a copy of all texts that earlier versions wrote."""


def _has(db: sqlite3.Connection, table: str) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,))
    return found.fetchone() is not None


def _moment(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()

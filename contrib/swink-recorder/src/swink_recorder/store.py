"""Stores of calls: a folder with a file for each, or one SQLite file.

Either holds the same documents, the form of which is in `documents`, and can be read while another
process writes it. Whatever ends the process that writes, what was written before is whole: a file
appears under its name when it is complete, and SQLite takes back what was not. Nobody but their
owner can read them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec
from attrs import define

from swink_core import UsageError
from swink_recorder.recording import RecordingError

__all__ = [
    "Entry",
    "FirstLine",
    "FolderStore",
    "Keep",
    "SQLiteStore",
    "Store",
    "now_text",
    "open_store",
]

Buffer: TypeAlias = bytes | memoryview
"""Part of a document."""

SUFFIXES = (".db", ".sqlite", ".sqlite3")
"""Names with these endings are SQLite files."""

PRIVATE = 0o600

PAGE = 16_384
"""Bytes of a SQLite page: a call is long, and has few."""

BUSY_SECONDS = 5.0
"""How long a writer waits for another process that writes."""


class Entry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What a list shows of a call. `at` is when it began (ISO 8601, UTC); `outcome` is `done`, or
    the kind of its failure; `cost` is in US dollars."""

    id: str
    at: str
    model: str
    outcome: str
    seconds: float = 0.0
    attempts: int = 1
    input: int | None = None
    output: int | None = None
    cost: float | None = None
    notices: list[str] = []
    prompt: str = ""
    answer: str = ""


class FirstLine(msgspec.Struct):
    """The first line of a call's document."""

    call: Entry


@define(frozen=True)
class Keep:
    """What a store keeps at most; `None` is no limit. The oldest calls go first."""

    days: float | None = 30.0
    megabytes: float | None = 1000.0
    calls: int | None = None

    @classmethod
    def of(cls, words: str) -> Keep:
        """Return what words such as `30d 500MB 10000` say: days, megabytes, a number of calls.

        A limit that is not named is none. Raises UsageError for other words.
        """
        given: dict[str, Any] = {"days": None, "megabytes": None, "calls": None}
        for word in words.replace(",", " ").split():
            units = (("d", "days", float), ("MB", "megabytes", float), ("", "calls", int))
            unit, name, number = next(u for u in units if word.endswith(u[0]))
            try:
                given[name] = number(word.removesuffix(unit))
            except ValueError:
                raise UsageError(
                    f"{word!r} is nothing to keep calls by",
                    resolution="Write days, megabytes and a number of calls: 30d 500MB 10000",
                ) from None
        return cls(**given)


class Store(Protocol):
    """Where calls are kept. Its methods do I/O, and belong in a thread."""

    path: Path

    def add(self, entry: Entry, document: Sequence[Buffer]) -> None:
        """Keep a call; its document comes in parts."""

    def entries(self) -> Iterator[Entry]:
        """Yield the entries, the newest first."""

    def search(self, words: Sequence[str]) -> Iterator[Entry]:
        """Yield the entries in whose prompt or answer all words occur, the newest first."""

    def read(self, id: str) -> bytes:
        """Return a call's document."""

    def delete(self, id: str) -> None:
        """Forget a call."""

    def prune(self, keep: Keep) -> None:
        """Forget what is not to be kept."""


def open_store(path: str | Path) -> FolderStore | SQLiteStore:
    """Return the store at a path, a SQLite file by its ending (`.db`, `.sqlite`, `.sqlite3`).

    Nothing is made before the first call is kept.
    """
    path = Path(path).expanduser()
    return SQLiteStore(path) if path.suffix in SUFFIXES and not path.is_dir() else FolderStore(path)


class FolderStore:
    """A file for each call, with its time and id in the name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entry: Entry, document: Sequence[Buffer]) -> None:
        """Keep a call."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        moment = "".join(char for char in entry.at[:23] if char not in ":-.")
        name = f"{moment}-{entry.id}.call"
        beside = self.path / f".{name}"
        with open(os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, PRIVATE), "wb") as file:
            file.writelines(document)
        beside.replace(self.path / name)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries, the newest first; what is none of ours is passed over."""
        for file in self._files():
            with suppress(OSError, msgspec.DecodeError), file.open("rb") as document:
                yield msgspec.json.decode(document.readline(), type=FirstLine).call

    def search(self, words: Sequence[str]) -> Iterator[Entry]:
        """Yield the entries in whose prompt or answer all words occur, the newest first."""
        wanted = [word.lower() for word in words]
        for entry in self.entries():
            said = f"{entry.prompt}\n{entry.answer}".lower()
            if all(word in said for word in wanted):
                yield entry

    def read(self, id: str) -> bytes:
        """Return a call's document."""
        return self._file(id).read_bytes()

    def delete(self, id: str) -> None:
        """Forget a call."""
        self._file(id).unlink(missing_ok=True)

    def prune(self, keep: Keep) -> None:
        """Forget what is not to be kept."""
        size = 0
        for number, file in enumerate(self._files()):
            with suppress(FileNotFoundError):  # another process prunes too
                status = file.stat()
                size += status.st_size
                if _is_over(keep, number, size, status.st_mtime):
                    file.unlink()

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("[0-9]*-*.call"), reverse=True)

    def _file(self, id: str) -> Path:
        return next(iter(self.path.glob(f"[0-9]*-{id}.call")), self.path / f"{id}.call")


class SQLiteStore:
    """One file with a row for each call, and an index of words where SQLite has FTS5."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, entry: Entry, document: Sequence[Buffer]) -> None:
        """Keep a call."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, PRIVATE))  # its companions follow it
        size = sum(map(len, document))
        with closing(self._open()) as db, db:
            self._delete(db, "id = ?", entry.id)
            row = (entry.id, _moment(entry.at), msgspec.json.encode(entry).decode(), size)
            number = db.execute(
                "INSERT INTO calls (id, at, entry, size) VALUES (?, ?, ?, ?)", row
            ).lastrowid
            rows = [(number, part) for part in document]
            db.executemany("INSERT INTO parts (call, data) VALUES (?, ?)", rows)
            if _has(db, "words"):
                said = (number, entry.prompt, entry.answer)
                db.execute("INSERT INTO words (rowid, prompt, answer) VALUES (?, ?, ?)", said)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries, the newest first."""
        yield from self._found("SELECT entry FROM calls ORDER BY at DESC, number DESC")

    def search(self, words: Sequence[str]) -> Iterator[Entry]:
        """Yield the entries in whose prompt or answer all words occur, the newest first."""
        if not self.path.exists():
            return
        with closing(self._open()) as db:
            indexed = _has(db, "words")
        if indexed:
            wanted = " ".join('"' + word.replace('"', '""') + '"' for word in words)
            yield from self._found(
                "SELECT entry FROM calls JOIN words ON words.rowid = calls.number "
                "WHERE words MATCH ? ORDER BY at DESC, number DESC",
                wanted,
            )
            return
        lower = [word.lower() for word in words]
        for entry in self.entries():
            if all(word in f"{entry.prompt}\n{entry.answer}".lower() for word in lower):
                yield entry

    def read(self, id: str) -> bytes:
        """Return a call's document."""
        with closing(self._open()) as db:
            rows = db.execute(
                "SELECT data FROM parts JOIN calls ON calls.number = parts.call "
                "WHERE calls.id = ? ORDER BY parts.number",
                (id,),
            ).fetchall()
        if not rows:
            raise FileNotFoundError(id)
        return b"".join(data for (data,) in rows)

    def delete(self, id: str) -> None:
        """Forget a call."""
        with closing(self._open()) as db, db:
            self._delete(db, "id = ?", id)

    def prune(self, keep: Keep) -> None:
        """Forget what is not to be kept."""
        with closing(self._open()) as db, db:
            size = 0
            rows = "SELECT number, at, size FROM calls ORDER BY at DESC, number DESC"
            for rank, (number, at, length) in enumerate(db.execute(rows).fetchall()):
                size += length
                if _is_over(keep, rank, size, at):
                    self._delete(db, "number = ?", number)

    def _delete(self, db: sqlite3.Connection, which: str, value: Any) -> None:
        old = f"SELECT number FROM calls WHERE {which}"
        db.execute(f"DELETE FROM parts WHERE call IN ({old})", (value,))
        if _has(db, "words"):
            db.execute(f"DELETE FROM words WHERE rowid IN ({old})", (value,))
        db.execute(f"DELETE FROM calls WHERE {which}", (value,))

    def _found(self, query: str, *values: Any) -> Iterator[Entry]:
        if self.path.exists():
            with closing(self._open()) as db:
                for (entry,) in db.execute(query, values):
                    yield msgspec.json.decode(entry, type=Entry)

    def _open(self) -> sqlite3.Connection:
        if not self.path.exists():
            raise FileNotFoundError(self.path)
        db = sqlite3.connect(self.path, timeout=BUSY_SECONDS)
        try:
            self._prepare(db)
        except sqlite3.Error as error:
            db.close()
            raise RecordingError(
                f"{self.path}: {error}",
                title="Broken store",
                resolution="Restore the file, or have calls recorded in another one.",
            ) from error
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        if not _has(db, "calls"):
            db.execute(f"PRAGMA page_size = {PAGE}")
            with db:
                for statement in _SCHEMA:
                    db.execute(statement)
                with suppress(sqlite3.OperationalError):  # a SQLite without FTS5
                    db.execute(_WORDS)


_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS calls (number INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "
    "at REAL NOT NULL, entry TEXT NOT NULL, size INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS calls_at ON calls (at)",
    "CREATE TABLE IF NOT EXISTS parts (number INTEGER PRIMARY KEY, call INTEGER NOT NULL, "
    "data BLOB NOT NULL)",
    "CREATE INDEX IF NOT EXISTS parts_of ON parts (call)",
)

_WORDS = "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (prompt, answer)"


def _has(db: sqlite3.Connection, table: str) -> bool:
    found = db.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,))
    return found.fetchone() is not None


def _moment(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _is_over(keep: Keep, rank: int, size: int, at: float) -> bool:
    old = keep.days is not None and at < time.time() - timedelta(days=keep.days).total_seconds()
    many = keep.calls is not None and rank >= keep.calls
    return old or many or (keep.megabytes is not None and size > keep.megabytes * 1e6)


def now_text() -> str:
    """Return the present moment as an entry has it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

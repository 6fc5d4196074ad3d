"""Store the lines of a journal in files or in a SQLite database.

An engine appends and reads lines; the journal interprets them. `append` returns after the line is
written: a process that is killed afterwards loses nothing. Only a power failure can lose data that
the operating system had not written to disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Protocol

from swink_core import SwinkError, UsageError

__all__ = ["Engine", "FileEngine", "SQLiteEngine", "engine_of"]

PLACE_BITS = 44
"""The number of low bits of a position that contain the offset in a file.

The other bits contain the file's number.
"""

DATABASES = (".db", ".sqlite", ".sqlite3")


class Engine(Protocol):
    """The interface of engines: durable storage of lines, addressed by position."""

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield all lines with their positions; each writer's lines are in the order of writing.

        A second call yields only lines added since the first.
        """

    def append(self, line: bytes) -> int:
        """Write a line, which must not contain a line break, and return its position."""

    def read(self, place: int) -> bytes:
        """Return the line at a position."""

    def where(self, place: int) -> str:
        """Describe where the line at a position is stored, for error messages."""

    def close(self) -> None:
        """Flush to disk, and release the locks."""


def engine_of(path: str | Path, shard: str = "all") -> Engine:
    """Return the engine for a path: a database or a folder of files.

    A path with the suffix `.db`, `.sqlite` or `.sqlite3` is a database. `shard` is the name of the
    writer; each writer has a separate file. Raises UsageError if another process writes the file of
    this writer.
    """
    path = Path(path)
    is_database = path.suffix in DATABASES and not path.is_dir()
    return SQLiteEngine(path, shard) if is_database else FileEngine(path, shard)


class FileEngine:
    """A folder with a file for each writer; processes on several machines may write to it."""

    def __init__(self, folder: Path, shard: str = "all") -> None:
        self._is_new = not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        own = folder / f"{shard}.journal"
        self._file = _locked(own)
        self._end = _whole(self._file)
        self._folder, self._paths = folder, [own]
        self._ends: dict[int, int] = {}  # how much of each file has been read
        self._open: dict[int, IO[bytes]] = {}  # for reading at any position
        self._alone = Lock()  # protects the position of a file

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield all new lines with their positions, one file after another."""
        known = {*self._paths}
        self._paths += sorted(path for path in self._folder.glob("*.journal") if path not in known)
        for number, path in [*enumerate(self._paths)][::-1]:
            at = self._ends.get(number, 0)
            with path.open("rb") as file:
                file.seek(at)
                for line in file:
                    if not line.endswith(b"\n"):
                        break  # an incomplete line: its writer has not finished it, or was killed
                    yield number << PLACE_BITS | at, line[:-1]
                    at += len(line)
            self._ends[number] = at

    def append(self, line: bytes) -> int:
        """Write a line and return its position."""
        data, place, file = line + b"\n", self._end, self._file.fileno()
        try:
            while data:  # a full disk or a signal may cut a write short
                data = data[os.write(file, data) :]
        except OSError as error:
            os.ftruncate(file, place)  # remove the incomplete line
            raise _unusable(self._paths[0], error) from error
        self._end = place + len(line) + 1
        return place

    def read(self, place: int) -> bytes:
        """Return the line at a position."""
        number, offset = place >> PLACE_BITS, place & (1 << PLACE_BITS) - 1
        data, size = b"", 4096
        with self._alone:
            if number not in self._open:  # unbuffered, because the file may still change
                self._open[number] = self._paths[number].open("rb", buffering=0)
            file = self._open[number]
            while b"\n" not in data:
                file.seek(offset)
                data, size = file.read(size), size * 4
        return data[: data.index(b"\n")]

    def where(self, place: int) -> str:
        """Return the file and the line number of the line at a position."""
        path, number = self._paths[place >> PLACE_BITS], 1
        with path.open("rb") as file:
            while file.tell() < place & (1 << PLACE_BITS) - 1 and file.readline():
                number += 1
        return f"{path}: line {number}"

    def close(self) -> None:
        """Flush to disk, and close the files; if the folder is new and empty, it is removed."""
        os.fsync(self._file.fileno())
        if self._is_new and not self._end:
            with suppress(OSError):  # the folder may contain files of other shards
                self._paths[0].unlink()
                self._folder.rmdir()
        for file in (*self._open.values(), self._file):
            file.close()


class SQLiteEngine:
    """A database in WAL mode; several processes of one machine may write to it."""

    def __init__(self, path: Path, shard: str = "all") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(path.with_name(f"{path.name}.{shard}.lock"))
        self._read_to, self._path = 0, path
        self._alone = Lock()  # threads must not share sqlite3's cached statements
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA busy_timeout=60000")
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS lines (line BLOB NOT NULL)")
        except sqlite3.DatabaseError as error:
            self._lock.close()
            raise UsageError(
                f"{path} is no journal: {error}", resolution="Pass another path with --journal."
            ) from error

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield all new lines with their positions."""
        new = "SELECT rowid, line FROM lines WHERE rowid > ? ORDER BY rowid"
        with self._used():
            for place, line in self._db.execute(new, (self._read_to,)):
                self._read_to = place
                yield place, line

    def append(self, line: bytes) -> int:
        """Write a line and return its position."""
        with self._used(), self._alone:
            return int(self._db.execute("INSERT INTO lines VALUES (?)", (line,)).lastrowid or 0)

    def read(self, place: int) -> bytes:
        """Return the line at a position."""
        with self._used(), self._alone:
            row = self._db.execute("SELECT line FROM lines WHERE rowid = ?", (place,)).fetchone()
            return bytes(row[0])

    def where(self, place: int) -> str:
        """Return the database and the line number of the line at a position."""
        return f"{self._path}: line {place}"

    def close(self) -> None:
        """Flush to disk, and close the database."""
        with suppress(sqlite3.Error):  # write errors have been reported already
            self._db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        self._db.close()
        self._lock.close()

    @contextmanager
    def _used(self) -> Iterator[None]:
        """Convert errors of SQLite to SwinkError."""
        try:
            yield
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from error


def _unusable(path: Path, error: Exception) -> SwinkError:
    why = getattr(error, "strerror", None) or error
    return SwinkError(
        f"{path}: {why}",
        title="The journal cannot be used",
        resolution="Check that the disk has room and that the file is intact. The next run "
        "resumes from it.",
    )


def _locked(path: Path) -> IO[bytes]:
    """Open a file for reading and appending, with a lock against other processes.

    The operating system releases the lock when the process exits or is killed.
    """
    file = path.open("a+b", buffering=0)
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.fstat(file.fileno()).st_nlink:  # deleted by the lock's previous owner
            raise OSError
    except ImportError:
        pass  # Windows: no lock
    except OSError as error:
        file.close()
        raise UsageError(
            f"another process is writing {path}",
            title="This run is already in progress",
            resolution=(
                "Wait for it, or stop it; several processes can share a journal with "
                "shards: --shard 1/4."
            ),
        ) from error
    return file


def _whole(file: IO[bytes]) -> int:
    """Remove an incomplete last line, left by a killed process, and return the file's size."""
    size = end = file.seek(0, os.SEEK_END)
    while end:
        start = max(0, end - 65536)
        file.seek(start)
        found = (file.read(end - start) or b"").rfind(b"\n")
        if found >= 0:
            end = start + found + 1
            break
        end = start
    if end < size:
        file.truncate(end)
    return end

"""Stores of calls and conversations: a folder with a file for each, or one SQLite file.

Both kinds of store contain the same documents (see the module `documents`), and can be read while
another process writes. If the writing process is killed, earlier data stay intact: a file appears
under its name when it is complete, and SQLite rolls back incomplete transactions. Only the owner of
the files can read them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

import swink_core as swink
from swink_recorder.entries import (
    PRIVATE,
    Buffer,
    Entry,
    FirstLine,
    Keep,
    KeptConversation,
    Written,
    with_words,
)
from swink_recorder.sqlite_store import SQLiteStore

__all__ = [
    "SUFFIXES",
    "Entry",
    "FirstLine",
    "FolderStore",
    "Keep",
    "KeptConversation",
    "SQLiteStore",
    "Store",
    "open_store",
]

SUFFIXES = (".db", ".sqlite", ".sqlite3")
"""The file name suffixes that select a SQLite store."""

TALK = ".conversation"
"""The file name suffix of a conversation in a folder."""


class Store(Protocol):
    """A store of calls. Its methods do blocking I/O: from an event loop, call them in a thread."""

    path: Path

    def add(self, calls: Sequence[Written]) -> None:
        """Store calls."""

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of all calls, newest first."""

    def search(self, words: Sequence[str]) -> Iterator[Entry]:
        """Yield the entries of calls with all `words` in prompt or answer, newest first."""

    def read(self, id: str) -> bytes:
        """Return the stored document of the call `id`."""

    def keep_conversation(self, kept: KeptConversation, context: bytes) -> None:
        """Store the current state of a conversation, replacing the earlier one."""

    def conversations(self) -> Iterator[KeptConversation]:
        """Yield the conversations, the most recently continued first."""

    def read_conversation(self, id: str) -> bytes:
        """Return the stored conversation `id`, as JSON text."""

    def delete(self, id: str) -> None:
        """Delete a call; deleting the last call of a conversation deletes the conversation."""

    def prune(self, keep: Keep) -> None:
        """Delete calls beyond the retention limits."""


def open_store(path: str | Path) -> FolderStore | SQLiteStore:
    """Return the store at a path: a SQLite file or a folder.

    A path that ends in `.db`, `.sqlite` or `.sqlite3` is a SQLite file, and any other path a
    folder. Nothing is created before the first call is stored. Raises UsageError for a `~name` of
    an unknown user.
    """
    try:
        path = Path(path).expanduser()
    except RuntimeError as error:
        raise swink.UsageError(
            f"{path}: this home folder does not exist",
            title="No store of calls",
            resolution="Write the full path of the store.",
        ) from error
    return SQLiteStore(path) if path.suffix in SUFFIXES and not path.is_dir() else FolderStore(path)


class FolderStore:
    """A folder with a file for each call; the name of the file contains the call's time and id."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, calls: Sequence[Written]) -> None:
        """Store calls."""
        for entry, document in calls:
            moment = "".join(char for char in entry.at[:23] if char not in ":-.")
            self._write(f"{moment}-{entry.id}.call", document)

    def _write(self, name: str, document: Sequence[Buffer]) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = self.path / f".{name}.{os.getpid()}"  # another process may write the same file
        with open(os.open(beside, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, PRIVATE), "wb") as file:
            file.writelines(document)
        beside.replace(self.path / name)

    def entries(self) -> Iterator[Entry]:
        """Yield the entries of all calls, newest first; other files are ignored."""
        yield from self._told(self._files())

    def _told(self, files: list[Path]) -> Iterator[Entry]:
        for file in files:
            with suppress(OSError, msgspec.DecodeError), file.open("rb") as document:
                entry = msgspec.json.decode(document.readline(), type=FirstLine).call
                if file.name.endswith(f"-{entry.id}.call"):  # `read` finds the file by this name
                    yield entry

    def search(self, words: Sequence[str]) -> Iterator[Entry]:
        """Yield the entries of calls with all `words` in prompt or answer, newest first."""
        yield from with_words(self.entries(), words)

    def read(self, id: str) -> bytes:
        """Return the stored document of the call `id`."""
        return self._file(id).read_bytes()

    def keep_conversation(self, kept: KeptConversation, context: bytes) -> None:
        """Store the current state of a conversation, replacing the earlier one."""
        self._write(f"{kept.id}{TALK}", [msgspec.json.encode(kept), b"\n", context])

    def conversations(self) -> Iterator[KeptConversation]:
        """Yield the conversations, the most recently continued first."""
        found = []
        for file in self.path.glob(f"*{TALK}"):
            with suppress(OSError, msgspec.DecodeError), file.open("rb") as lines:
                kept = msgspec.json.decode(lines.readline(), type=KeptConversation)
                if file.name == f"{kept.id}{TALK}":
                    found.append(kept)
        yield from sorted(found, key=lambda kept: kept.at, reverse=True)

    def read_conversation(self, id: str) -> bytes:
        """Return the stored conversation `id`, as JSON text."""
        return (self.path / f"{id}{TALK}").read_bytes().partition(b"\n")[2]

    def delete(self, id: str) -> None:
        """Delete a call; deleting the last call of a conversation deletes the conversation."""
        self._forget([self._file(id)])

    def prune(self, keep: Keep) -> None:
        """Delete calls beyond the retention limits."""
        size, over = 0, []
        for number, file in enumerate(self._files()):
            with suppress(FileNotFoundError):  # another process deletes old calls, too
                status = file.stat()
                size += status.st_size
                if keep.is_over(number, size, status.st_mtime):
                    over.append(file)
        if over:
            self._forget(over)

    def _forget(self, files: list[Path]) -> None:
        gone = {entry.conversation for entry in self._told(files)}
        for file in files:
            file.unlink(missing_ok=True)
        for conversation in gone - {"", *(entry.conversation for entry in self.entries())}:
            (self.path / f"{conversation}{TALK}").unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("[0-9]*-*.call"), reverse=True)

    def _file(self, id: str) -> Path:
        return next(iter(self.path.glob(f"[0-9]*-{id}.call")), self.path / f"{id}.call")

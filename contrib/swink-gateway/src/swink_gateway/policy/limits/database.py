"""The database of a ledger in SQL: the operations that SQLite and Postgres share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

__all__ = ["Database", "Execute"]

Execute = Callable[[str, Sequence[Any]], Iterable[Sequence[Any]]]
"""Runs a statement with `?` for parameters, and returns its rows."""


class Database(Protocol):
    """A connection to a database, which one thread uses.

    `name` names this process in the database, and `errors` are the exceptions of a database that
    cannot be used now. `put` is the statement that replaces a value, with the name of a table for
    `{}`, and a key and a value as parameters.
    """

    name: str
    errors: tuple[type[Exception], ...]
    put: str

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Iterable[Sequence[Any]]:
        """Run a statement with `?` for parameters, and return its rows. Raises one of `errors`."""

    def transaction(self, lock: str) -> AbstractContextManager[None]:
        """Begin a transaction, which no other one with the same `lock` overlaps.

        It is committed at the end, and rolled back by an exception. Raises one of `errors`.
        """

    def reading(self) -> AbstractContextManager[Execute]:
        """Open another connection for reading, for any thread. Raises StoreUnavailable."""

    def is_running(self, process: str) -> bool:
        """Tell whether a process that used the database still runs, by its name."""

    def close(self) -> None:
        """Close the connection."""

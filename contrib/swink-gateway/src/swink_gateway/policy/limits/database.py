"""The interface of databases: the operations that SQLite and Postgres share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

__all__ = ["Database", "Execute"]

Execute = Callable[[str, Sequence[Any]], Iterable[Sequence[Any]]]
"""A function that runs a statement with `?` for parameters, and returns the rows."""


class Database(Protocol):
    """A connection to a database, used by one thread.

    `name` identifies this process in the database, and `errors` are the exceptions that are raised
    if the database cannot be used at the moment. `put` is the statement that replaces a value: `{}`
    in it stands for the table, and its parameters are a key and a value.
    """

    name: str
    errors: tuple[type[Exception], ...]
    put: str

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Iterable[Sequence[Any]]:
        """Run a statement with `?` for parameters, and return the rows.

        Raises one of `errors` if the database cannot be used.
        """

    def transaction(self, lock: str) -> AbstractContextManager[None]:
        """Return a context in which statements form a transaction.

        The transaction is committed at the end, and rolled back by an exception. Transactions with
        the same `lock` do not overlap. Raises one of `errors` if the database cannot be used.
        """

    def reading(self) -> AbstractContextManager[Execute]:
        """Open another connection for reading, usable in any thread.

        Raises StoreUnavailable if the database cannot be read.
        """

    def is_running(self, process: str) -> bool:
        """Return True if the process that used the database under this name still runs."""

    def close(self) -> None:
        """Close the connection."""

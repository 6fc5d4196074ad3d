"""The ledger of several machines, in a Postgres server."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from swink_core.providers import Clock
from swink_gateway.policy.limits.database import Execute
from swink_gateway.policy.limits.ledger import StoreError, StoreUnavailable
from swink_gateway.policy.limits.rows import SCHEMA
from swink_gateway.policy.limits.sql import SQLLedger

__all__ = ["PostgresDatabase", "PostgresLedger", "is_address"]

SCHEMES = ("postgresql://", "postgres://")

ANSWER_SECONDS = 5
"""The seconds after which a server without a reply counts as unavailable."""

_PATIENCE = {
    "connect_timeout": ANSWER_SECONDS,
    "keepalives_idle": ANSWER_SECONDS,
    "keepalives_interval": 1,
    "keepalives_count": ANSWER_SECONDS,
    "tcp_user_timeout": ANSWER_SECONDS * 1000,
}
"""Connection parameters: https://www.postgresql.org/docs/current/libpq-connect.html."""

_LOCK = 0
"""The key of the lock that is held while the tables are created."""

_TABLES = (
    SCHEMA.replace("id TEXT", 'id TEXT COLLATE "C"', 1),  # so that ids are sorted by bytes
    "CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, kept BYTEA, rowid BIGSERIAL)",
    "CREATE TABLE IF NOT EXISTS ids (id TEXT PRIMARY KEY, owner TEXT, rowid BIGSERIAL)",
    "CREATE TABLE IF NOT EXISTS breakers (name TEXT PRIMARY KEY, kept BYTEA, rowid BIGSERIAL)",
)

_APPLICATION = "swink-gateway-"
"""The prefix of the `application_name` of connections; the name of the process follows."""


def is_address(text: str) -> bool:
    """Return True if a text is the address of a Postgres server."""
    return text.startswith(SCHEMES)


class PostgresDatabase:
    """A database of the Postgres server at an address such as `postgresql://user@host/database`.

    The object connects to the server, and creates the tables, on first use and after each error. A
    process counts as running as long as the server has a connection with its name. Raises
    StoreError if the extra `postgres` is not installed, and for an invalid address.
    """

    put = (
        "INSERT INTO {0} (name, kept) VALUES (?, ?) ON CONFLICT (name) "
        "DO UPDATE SET kept = excluded.kept, rowid = excluded.rowid"
    )

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        except ImportError as error:
            raise StoreError(
                "limits cannot be kept in Postgres: psycopg is not installed",
                resolution="pip install 'swink-gateway[postgres]'",
            ) from error
        try:
            if not is_address(url):
                raise psycopg.ProgrammingError
            stated = conninfo_to_dict(url)
        except psycopg.ProgrammingError:  # its message may contain a part of the password
            raise StoreError(
                "limits cannot be kept in Postgres: the store's url is not the address of a server",
                resolution="Give an address such as postgresql://user@localhost/swink.",
            ) from None
        self.name = secrets.token_hex(8)
        self.errors: tuple[type[Exception], ...] = (psycopg.Error, OSError)
        self._psycopg = psycopg
        self._options: dict[str, Any] = {**_PATIENCE, **stated}
        self._connection: Any = None
        self._is_in_transaction = False

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Iterable[Sequence[Any]]:
        given = [each.replace("\0", "") if isinstance(each, str) else each for each in values]
        if self._is_in_transaction:
            return self._run(statement.replace("?", "%s"), given)
        return self._first(statement.replace("?", "%s"), given)

    @contextmanager
    def transaction(self, lock: str) -> Iterator[None]:
        digest = hashlib.blake2b(lock.encode(errors="surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        self._first(f"BEGIN; SELECT pg_advisory_xact_lock({number})", None)
        self._is_in_transaction = True
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._disconnect()  # rolls back, whatever the state of the connection
            raise
        finally:
            self._is_in_transaction = False

    @contextmanager
    def reading(self) -> Iterator[Execute]:
        try:
            with closing(self._connect("reader")) as connection:
                yield lambda statement, values: _rows(
                    connection.execute(statement.replace("?", "%s"), values)
                )
        except self.errors as error:
            raise StoreUnavailable(f"the ledger cannot be read: {error}") from error

    def is_running(self, process: str) -> bool:
        if process == self.name:
            return True
        query = "SELECT 1 FROM pg_stat_activity WHERE application_name = ?"
        return bool([*self.execute(query, (_APPLICATION + process,))])

    def close(self) -> None:
        self._disconnect()

    def _first(self, statement: str, values: Sequence[Any] | None) -> Iterable[Sequence[Any]]:
        """Run a statement outside a transaction; retry it once if the connection was broken."""
        if self._connection is not None:
            try:
                return self._run(statement, values)
            except self._psycopg.Error:
                is_broken = self._connection.closed
                self._disconnect()
                if not is_broken:
                    raise
        self._connection = self._connect(self.name)
        return self._run(statement, values)

    def _run(self, statement: str, values: Sequence[Any] | None) -> Iterable[Sequence[Any]]:
        # Several statements at once, without parameters, cannot be prepared.
        prepare = None if values is not None else False
        return _rows(self._connection.execute(statement, values, prepare=prepare))

    def _connect(self, name: str) -> Any:
        options = {**self._options, "application_name": _APPLICATION + name}
        connection = self._psycopg.connect(**options, autocommit=True)
        try:
            connection.execute(f"SET statement_timeout = {ANSWER_SECONDS * 1000}")
            if connection.execute("SELECT to_regclass('attempts')").fetchone() == (None,):
                lock = f"SELECT pg_advisory_xact_lock({_LOCK})"
                connection.execute(";".join([lock, *_TABLES]))
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class PostgresLedger(SQLLedger):
    """A ledger in the Postgres server at `url`. Raises StoreError like `PostgresDatabase`."""

    def __init__(
        self, url: str, clock: Clock | None = None, counters: Counter[str] | None = None
    ) -> None:
        super().__init__(PostgresDatabase(url), clock, counters)


def _rows(cursor: Any) -> Iterable[Sequence[Any]]:
    return () if cursor.description is None else cursor.fetchall()

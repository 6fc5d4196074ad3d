"""The ledger of one machine: a SQLite file that its processes share, and that outlives them.

An account is read, counted and written back within one transaction, by the same code that counts
in memory, and the row of the attempt is written in the same transaction: rows and budgets agree
whenever the process ends. A thread does it: the event loop waits for no disk and for no other
process's lock. Reports use a
separate connection, so that no request waits for them.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from msgspec import msgpack

from swink_core.providers import Clock, LoopClock
from swink_gateway.policy.limits.account import Account, Breaker
from swink_gateway.policy.limits.debts import is_running
from swink_gateway.policy.limits.files import cannot_be_kept, carry_over, open_rows
from swink_gateway.policy.limits.ledger import (
    MOST_IDS,
    Allowance,
    Circuit,
    FailedAttempt,
    Refusal,
    Spending,
    StoreUnavailable,
    Ticket,
    begun,
    settled,
)
from swink_gateway.policy.limits.memory import MOST_REMEMBERED
from swink_gateway.policy.limits.rows import (
    Entry,
    Execute,
    Query,
    Total,
    entries_in,
    read_only,
    report_in,
    sqlite_execute,
    write,
)

__all__ = ["SQLiteLedger"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, kept BLOB) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ids (id TEXT PRIMARY KEY, owner TEXT);
CREATE TABLE IF NOT EXISTS breakers (name TEXT PRIMARY KEY, kept BLOB);
"""

T = TypeVar("T")
Kept = TypeVar("Kept", Account, Breaker)


class SQLiteLedger:
    """Keeps everything in the file at `path`, which is made. Raises StoreError if it cannot be."""

    def __init__(self, path: Path, clock: Clock | None = None) -> None:
        self._clock = clock or LoopClock()
        self._path = path
        self._process = str(os.getpid())
        self._thread = ThreadPoolExecutor(1, "swink-ledger")
        self._database: sqlite3.Connection = self._thread.submit(_opened, path).result()

    async def admit(
        self,
        key: str,
        allowance: Allowance,
        tokens: int,
        dollars: float | None,
        entry: Entry | None = None,
        *,
        begins: bool = True,
    ) -> Ticket | Refusal:
        ticket = Ticket(key, self._now(), tokens, dollars or 0.0, entry or Entry())

        def admitted(account: Account) -> Refusal | None:
            refused = account.admit(allowance, ticket, self._process, is_running, begins)
            if refused is None:
                write(self._database, [begun(ticket, self._process, dollars).entry])
            return refused

        return await self._change("accounts", key, Account, admitted) or ticket

    async def settle(
        self, ticket: Ticket, tokens: int, dollars: float | None, *, ends: bool = True
    ) -> None:
        entry = settled(ticket, tokens, dollars)

        def settle(account: Account) -> None:
            account.settle(ticket, tokens, dollars or 0.0, self._process, ends)
            write(self._database, [entry])

        await self._change("accounts", ticket.key, Account, settle)

    async def report(self, query: Query) -> list[Total]:
        return await asyncio.to_thread(self._read_rows, report_in, query)

    async def entries(self, query: Query) -> list[Entry]:
        return await asyncio.to_thread(self._read_rows, entries_in, query)

    def _read_rows(self, read: Callable[[Execute, Query], T], query: Query) -> T:
        try:
            with closing(read_only(self._path)) as database:
                return read(sqlite_execute(database), query)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the ledger cannot be read: {error}") from error

    async def spending(self, keys: Sequence[str]) -> list[Spending]:
        now = self._now()

        def read() -> list[Spending]:
            accounts = [self._read("accounts", key, Account) or Account() for key in keys]
            return [
                account.spending(key, now, is_running)
                for key, account in zip(keys, accounts, strict=True)
            ]

        return await self._do(read)

    async def circuit(self, target: str) -> Circuit | None:
        now = self._now()
        if await self._do(lambda: self._read("breakers", target, Breaker)) is None:
            return None
        return await self._change("breakers", target, Breaker, lambda breaker: breaker.enter(now))

    async def failed(self, target: str, failed: FailedAttempt) -> None:
        now = self._now()

        def count(breaker: Breaker) -> None:
            breaker.fail(now, failed)
            self._database.execute(
                "DELETE FROM breakers WHERE rowid <= (SELECT max(rowid) FROM breakers) - ?",
                (MOST_REMEMBERED - 1,),
            )

        await self._change("breakers", target, Breaker, count)

    async def succeeded(self, target: str) -> None:
        def forget() -> None:
            with self._database:
                self._database.execute("DELETE FROM breakers WHERE name = ?", (target,))

        await self._do(forget)

    async def claim(self, owner: str, ids: Collection[str]) -> None:
        rows = [(id, owner) for id in ids]

        def claim() -> None:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany("INSERT OR IGNORE INTO ids VALUES (?, ?)", rows)
                self._database.execute(
                    "DELETE FROM ids WHERE rowid <= (SELECT max(rowid) FROM ids) - ?", (MOST_IDS,)
                )

        await self._do(claim)

    async def owned(self, owner: str, ids: Collection[str]) -> set[str]:
        def read() -> set[str]:
            query = "SELECT 1 FROM ids WHERE id = ? AND owner = ?"
            return {
                id
                for id in ids
                if self._database.execute(query, (id, owner)).fetchone() is not None
            }

        return await self._do(read)

    async def aclose(self) -> None:
        await self._do(self._database.close)
        self._thread.shutdown()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    async def _do(self, what: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, what)
        except sqlite3.Error as error:
            raise StoreUnavailable(f"the file with the limits cannot be used: {error}") from error

    async def _change(
        self, table: str, name: str, kind: type[Kept], change: Callable[[Kept], T]
    ) -> T:
        """Change what is kept under a name, while nobody else does."""

        def changed() -> T:
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                kept = self._read(table, name, kind) or kind()
                result = change(kept)
                self._database.execute(
                    f"REPLACE INTO {table} (name, kept) VALUES (?, ?)",
                    (name, msgpack.encode(kept)),
                )
                return result

        return await self._do(changed)

    def _read(self, table: str, name: str, kind: type[Kept]) -> Kept | None:
        rows = self._database.execute(f"SELECT kept FROM {table} WHERE name = ?", (name,))
        row = rows.fetchone()
        return None if row is None else msgpack.decode(row[0], type=kind)


def _opened(path: Path) -> sqlite3.Connection:
    database = open_rows(path)
    try:
        database.executescript(_SCHEMA)
        carry_over(database)
    except sqlite3.Error as error:
        raise cannot_be_kept(path, error) from error
    return database

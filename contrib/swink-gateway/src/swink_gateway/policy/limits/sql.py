"""The ledger in an SQL database: budgets and rows change in the same transaction."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from msgspec import msgpack

from swink_core.providers import Clock, LoopClock
from swink_gateway.policy.limits.account import Account, Breaker
from swink_gateway.policy.limits.database import Database, Execute
from swink_gateway.policy.limits.ledger import (
    IS_LOST,
    LOST,
    MOST_IDS,
    MOST_REMEMBERED,
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
from swink_gateway.policy.limits.rows import Entry, Query, Total, entries_in, report_in, write

__all__ = ["SQLLedger"]

PRUNED_AFTER = 1_000
"""After so many recorded ids, the oldest are forgotten if there are too many."""

MOST_COMPARED = 500
"""The maximum number of ids in one query."""

T = TypeVar("T")
Kept = TypeVar("Kept", Account, Breaker)


class SQLLedger:
    """A ledger in a database; `aclose` closes the database.

    The counter `LOST` in `counters` counts how often the database could no longer be used, and
    `IS_LOST` is 1 from an error until a change is stored.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock | None = None,
        counters: Counter[str] | None = None,
    ) -> None:
        self._counters = Counter[str]() if counters is None else counters
        self._is_lost = False
        self._clock = clock or LoopClock()
        self._process = database.name
        self._thread = ThreadPoolExecutor(1, "swink-ledger")
        self._database = database
        self._claimed = 0  # ids since they were last pruned

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
            refused = account.admit(
                allowance, ticket, self._process, self._database.is_running, begins
            )
            if refused is None:
                write(self._database.execute, [begun(ticket, self._process, dollars).entry])
            return refused

        return await self._change("accounts", key, Account, admitted) or ticket

    async def settle(
        self, ticket: Ticket, tokens: int, dollars: float | None, *, ends: bool = True
    ) -> None:
        entry = settled(ticket, tokens, dollars)

        def settle(account: Account) -> None:
            account.settle(ticket, tokens, dollars or 0.0, self._process, ends)
            write(self._database.execute, [entry])

        await self._change("accounts", ticket.key, Account, settle)

    async def report(self, query: Query) -> list[Total]:
        return await asyncio.to_thread(self._read_rows, report_in, query)

    async def entries(self, query: Query) -> list[Entry]:
        return await asyncio.to_thread(self._read_rows, entries_in, query)

    def _read_rows(self, read: Callable[[Execute, Query], T], query: Query) -> T:
        with self._database.reading() as execute:
            return read(execute, query)

    async def running(self, processes: Collection[str]) -> set[str]:
        return await self._do(lambda: {*filter(self._database.is_running, processes)})

    async def spending(self, keys: Sequence[str]) -> list[Spending]:
        now = self._now()

        def read() -> list[Spending]:
            accounts = [self._read("accounts", key, Account) or Account() for key in keys]
            return [
                account.spending(key, now, self._database.is_running)
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
        await self._do(
            lambda: self._database.execute("DELETE FROM breakers WHERE name = ?", (target,))
        )

    async def claim(self, owner: str, ids: Collection[str]) -> None:
        def claim() -> None:
            with self._database.transaction("ids"):
                for id in ids:
                    self._database.execute(
                        "INSERT INTO ids (id, owner) VALUES (?, ?) ON CONFLICT DO NOTHING",
                        (id, owner),
                    )
                self._claimed += len(ids)
                if self._claimed >= PRUNED_AFTER:
                    self._claimed = 0
                    self._prune_ids()

        await self._do(claim)

    def _prune_ids(self) -> None:
        """Forget the oldest ids of the owner that has the most, if there are too many."""
        execute = self._database.execute
        [(count,)] = execute("SELECT count(*) FROM ids")
        if count > MOST_IDS:
            [(owner,)] = execute(
                "SELECT owner FROM ids GROUP BY owner ORDER BY count(*) DESC LIMIT 1"
            )
            execute(
                "DELETE FROM ids WHERE id IN "
                "(SELECT id FROM ids WHERE owner = ? ORDER BY rowid LIMIT ?)",
                (owner, count - MOST_IDS),
            )

    async def owned(self, owner: str, ids: Collection[str]) -> set[str]:
        names = [*ids]

        def owned() -> set[str]:
            found: set[str] = set()
            for at in range(0, len(names), MOST_COMPARED):
                some = names[at : at + MOST_COMPARED]
                places = ", ".join("?" * len(some))
                query = f"SELECT id FROM ids WHERE owner = ? AND id IN ({places})"
                found.update(id for (id,) in self._database.execute(query, (owner, *some)))
            return found

        return await self._do(owned)

    async def aclose(self) -> None:
        await self._do(self._database.close)
        self._thread.shutdown()

    def _now(self) -> float:
        return self._clock.now().timestamp()

    async def _do(self, what: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, what)
        except self._database.errors as error:
            if not self._is_lost:
                self._counters[LOST] += 1
            self._set_lost(True)
            raise StoreUnavailable(f"limits cannot be read or written: {error}") from error

    async def _change(
        self, table: str, name: str, kind: type[Kept], change: Callable[[Kept], T]
    ) -> T:
        """Change the value stored as `name`; no other process changes it at the same time."""

        def changed() -> T:
            with self._database.transaction(f"{table} {name}"):
                kept = self._read(table, name, kind) or kind()
                result = change(kept)
                put = self._database.put.format(table)
                self._database.execute(put, (name, msgpack.encode(kept)))
                return result

        result = await self._do(changed)
        if self._is_lost:
            self._set_lost(False)
        return result

    def _set_lost(self, is_lost: bool) -> None:
        self._is_lost = is_lost
        self._counters[IS_LOST] = int(is_lost)

    def _read(self, table: str, name: str, kind: type[Kept]) -> Kept | None:
        statement = f"SELECT kept FROM {table} WHERE name = ?"
        for row in self._database.execute(statement, (name,)):
            return msgpack.decode(row[0], type=kind)
        return None

"""The ledger of one process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from itertools import islice

from swink_core.providers import Clock, LoopClock
from swink_gateway.policy.limits.account import Account, Breaker
from swink_gateway.policy.limits.ledger import (
    MOST_IDS,
    MOST_REMEMBERED,
    Allowance,
    Circuit,
    FailedAttempt,
    Refusal,
    Spending,
    Ticket,
    begun,
    settled,
)
from swink_gateway.policy.limits.rows import Entry, Query, Total
from swink_gateway.policy.limits.writer import RowWriter

__all__ = ["SELF", "MemoryLedger"]

SELF = "self"


class MemoryLedger:
    """A ledger in memory.

    `rows` writes the rows of the ledger; if it is `None`, no rows are kept.
    """

    def __init__(self, clock: Clock | None = None, rows: RowWriter | None = None) -> None:
        self.accounts: dict[str, Account] = {}
        self._rows = rows
        self._clock = clock or LoopClock()
        self._breakers: OrderedDict[str, Breaker] = OrderedDict()
        self._owners: dict[str, str] = {}
        self._ids: dict[str, dict[str, None]] = {}  # of each owner, oldest first

    def now(self) -> float:
        """Return the Unix time in seconds."""
        return self._clock.now().timestamp()

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
        ticket = Ticket(key, self.now(), tokens, dollars or 0.0, entry or Entry())
        account = self.accounts.setdefault(key, Account())
        refused = account.admit(allowance, ticket, SELF, _is_alive, begins)
        if refused is None and self._rows is not None:
            self._rows.put(begun(ticket, SELF, dollars).entry)
        return refused or ticket

    async def settle(
        self, ticket: Ticket, tokens: int, dollars: float | None, *, ends: bool = True
    ) -> None:
        account = self.accounts.setdefault(ticket.key, Account())
        account.settle(ticket, tokens, dollars or 0.0, SELF, ends)
        if self._rows is not None:
            self._rows.put(settled(ticket, tokens, dollars))

    async def report(self, query: Query) -> list[Total]:
        return [] if self._rows is None else await self._rows.report(query)

    async def entries(self, query: Query) -> list[Entry]:
        return [] if self._rows is None else await self._rows.entries(query)

    async def running(self, processes: Collection[str]) -> set[str]:
        return {*processes} & {SELF}

    async def spending(self, keys: Sequence[str]) -> list[Spending]:
        now = self.now()
        return [self.accounts.get(key, Account()).spending(key, now, _is_alive) for key in keys]

    async def circuit(self, target: str) -> Circuit | None:
        breaker = self._breakers.get(target)
        return None if breaker is None else breaker.enter(self.now())

    async def failed(self, target: str, failed: FailedAttempt) -> None:
        breaker = self._breakers.setdefault(target, Breaker())
        self._breakers.move_to_end(target)
        if len(self._breakers) > MOST_REMEMBERED:
            self._breakers.popitem(last=False)
        breaker.fail(self.now(), failed)

    async def succeeded(self, target: str) -> None:
        self._breakers.pop(target, None)

    async def claim(self, owner: str, ids: Collection[str]) -> None:
        own = self._ids.setdefault(owner, {})
        for id in ids:
            if self._owners.setdefault(id, owner) == owner:
                own[id] = None
        excess = len(self._owners) - MOST_IDS
        if excess > 0:
            most = max(self._ids.values(), key=len)
            for oldest in [*islice(most, excess)]:
                del most[oldest], self._owners[oldest]

    async def owned(self, owner: str, ids: Collection[str]) -> set[str]:
        return {id for id in ids if self._owners.get(id) == owner}

    async def aclose(self) -> None:
        if self._rows is not None:
            await self._rows.aclose()


def _is_alive(process: str) -> bool:
    return True

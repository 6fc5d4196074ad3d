"""The ledger for several machines, with the limits in a Redis server.

Each operation is one Lua script, which Redis runs atomically. Every second, a process reports its
leases of each limit and gets new ones: see `leases`. If Redis has lost a budget, processes that
remember it write it again: see `remembered`. If the connection breaks before the reply to a script
arrives, the process does not know whether Redis has run the script. Therefore each reservation and
each charge sets a mark in Redis: the process sends it again later, and Redis ignores it if the mark
is set. The module `writer` writes the rows of the ledger to a
SQL database.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from attrs import evolve

from swink_core.providers import Clock
from swink_gateway.policy.limits import scripts
from swink_gateway.policy.limits.changes import Changes
from swink_gateway.policy.limits.connection import Connection
from swink_gateway.policy.limits.debts import Debt
from swink_gateway.policy.limits.leases import Leases, is_below_half
from swink_gateway.policy.limits.ledger import (
    Allowance,
    Circuit,
    FailedAttempt,
    Refusal,
    Spending,
    StoreUnavailable,
    Ticket,
    begun,
    refusal,
    settled,
)
from swink_gateway.policy.limits.remembered import RememberedBudgets
from swink_gateway.policy.limits.rows import Entry, Query, Total
from swink_gateway.policy.limits.writer import RowWriter

__all__ = ["RedisLedger"]

log = logging.getLogger(__name__)

PREFIX = "swink:gateway:"

MEMBERS = PREFIX + "members"

BUDGETS = PREFIX + "budgets"
"""The hash with the last day on which each key was charged.

The hash also contains a mark: if the mark is missing, Redis has lost its data.
"""

CHANGED = PREFIX + "changed"
"""The keys whose accounts have changed in the last minute, with the times."""

WANTED = PREFIX + "wanted"
"""The keys that were refused in the last minute because of other processes' leases."""

SIGN_SECONDS = 1.0
"""How many seconds pass between two exchanges with the server.

In each exchange, a process reads the spending of keys, or tries to reach a lost server.
"""

ID_SECONDS = 90 * 86400
"""How many seconds an id of a vendor's data is recorded: longer than vendors keep answers."""

AT_A_TIME = 250
"""The number of keys read by one script, which blocks Redis while it runs."""

MOST_LOOKS = 6
"""The maximum number of attempts to admit a call while other processes give up leases.

There is half a second between two attempts.
"""


class RedisLedger:
    """A ledger in the Redis server at an address such as `redis://localhost:6379`.

    Its Redis keys begin with `swink:gateway:` and contain no credentials. Charges that cannot be
    sent to the server are stored in `folder`, if given, so that other processes of the machine can
    send them later. `counters` counts by name how often the server was lost, and how often it had
    lost its data. `rows` writes the rows of the ledger (`None`: no rows are written). Raises
    UsageError if the extra `redis` is not installed, and for an invalid address.
    """

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        folder: Path | None = None,
        counters: Counter[str] | None = None,
        rows: RowWriter | None = None,
    ) -> None:
        counters = Counter[str]() if counters is None else counters
        self._server = Connection(url, scripts.ALL, clock, counters, self._lost)
        self._name = secrets.token_hex(8)
        self._process = "" if rows is None else rows.process
        self._rows = rows
        self._budgets = RememberedBudgets(self._server.where, counters)
        self._leases = Leases(clock, folder)
        self._seen: dict[str, Spending] = {}
        self._changes = Changes()
        self._mark: bytes | None = None
        self._charges = count()
        self._confirmed: list[str] = []
        self._looking = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

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
        found = await self._admitted(key, allowance, tokens, dollars or 0.0, begins)
        if isinstance(found, Ticket):
            found = evolve(found, entry=entry or Entry())
            if self._rows is not None:
                self._rows.put(begun(found, self._process, dollars).entry)
        return found

    async def _admitted(
        self, key: str, allowance: Allowance, tokens: int, dollars: float, begins: bool
    ) -> Ticket | Refusal:
        limits = (
            allowance.requests, allowance.tokens, allowance.streams,
            allowance.dollars_a_day, allowance.dollars_a_month,
        )  # fmt: skip
        stated = ["" if limit is None else limit for limit in limits]
        id = self._new_id()
        for look in range(MOST_LOOKS):
            if look:
                await asyncio.sleep(SIGN_SECONDS / 2)
            keys = [MEMBERS, *_account(key), _leases(key), BUDGETS, CHANGED, WANTED, _paid(id)]
            known = self._budgets.of(key)
            mine = self._name, tokens, dollars, *stated, int(begins), key, *known
            was_lost = self._server.is_lost
            reply = await self._ask(scripts.ADMIT, keys, *mine)
            if reply is None:
                owed = tokens, dollars, begins, id
                return await self._leases.admit(key, allowance, *owed, is_sent=not was_lost)
            admitted, self._leases.members, row, room, budget = reply
            taken = _spending(key, row)
            self._leases.clock.set(taken.at)
            self._budgets.update(key, taken, budget.decode(), dollars if admitted == 1 else 0.0)
            if admitted >= 0:
                self._seen[key] = taken
                break
        if admitted == -2:
            raise StoreUnavailable(
                f"Redis at {self._server.where} has lost the budget of the key {key!r}",
                resolution="It is written again by a process that remembers it, or by hand.",
            )
        if admitted < 1:
            refused = refusal(allowance if begins else allowance.budget, taken)
            assert refused is not None  # the script has compared the same numbers
            return refused if admitted == 0 else evolve(refused, retry_after=1.0, spent=False)
        self._confirmed.append(_paid(id))
        self._leases.bound(key, map(float, room), begins)
        return Ticket(key, taken.at, tokens, dollars)

    async def settle(
        self, ticket: Ticket, tokens: int, dollars: float | None, *, ends: bool = True
    ) -> None:
        if self._rows is not None:
            self._rows.put(settled(ticket, tokens, dollars))
        self._leases.streams[ticket.key] -= ends
        more = tokens - ticket.tokens, (dollars or 0.0) - ticket.dollars
        id = self._new_id()
        charged = self._name, "", int(ends), ticket.at, 0, *more, ticket.key
        keys = [*_account(ticket.key), BUDGETS, CHANGED, _paid(id)]
        known = self._budgets.of(ticket.key)
        if await self._ask(scripts.CHARGE, keys, *charged, *known) is None:
            await self._leases.settle(ticket, tokens, dollars, ends)
            self._leases.debts.add(ticket.key, ticket.at, 0, *more, id)
        else:
            self._confirmed.append(_paid(id))

    async def report(self, query: Query) -> list[Total]:
        return [] if self._rows is None else await self._rows.report(query)

    async def entries(self, query: Query) -> list[Entry]:
        return [] if self._rows is None else await self._rows.entries(query)

    async def running(self, processes: Collection[str]) -> set[str]:
        return set() if self._rows is None else await self._rows.running(processes)

    async def spending(self, keys: Sequence[str]) -> list[Spending]:
        await self._look(keys)
        return [self._seen.get(key, Spending(key)) for key in keys]

    async def circuit(self, target: str) -> Circuit | None:
        reply = await self._ask(scripts.ENTER, [_target(target)])
        if reply is None:
            return await self._leases.local.circuit(target)
        if not reply:
            return None
        failures, left, kind, message, probe = reply
        return Circuit(failures, float(left), kind.decode(), message.decode(), not float(probe))

    async def failed(self, target: str, failed: FailedAttempt) -> None:
        await self._leases.local.failed(target, failed)
        facts = failed.threshold, failed.rest, failed.kind, failed.message, failed.probe
        await self._ask(scripts.FAIL, [_target(target)], int(failed.is_first), *facts)

    async def succeeded(self, target: str) -> None:
        await self._leases.local.succeeded(target)
        if not self._server.is_lost:
            try:
                await self._server.redis.delete(_target(target))
            except self._server.failures as error:
                self._server.lose(error)

    async def claim(self, owner: str, ids: Collection[str]) -> None:
        await self._leases.local.claim(owner, ids)
        if ids and not self._server.is_lost:
            try:
                async with self._server.redis.pipeline(transaction=False) as pipeline:
                    for id in ids:
                        pipeline.set(_id(id), owner, nx=True, ex=ID_SECONDS)
                    await pipeline.execute()
            except self._server.failures as error:
                self._server.lose(error)

    async def owned(self, owner: str, ids: Collection[str]) -> set[str]:
        names = [*ids]
        if names and not self._server.is_lost:
            try:
                owners = await self._server.redis.mget([_id(id) for id in names])
            except self._server.failures as error:
                self._server.lose(error)
            else:
                pairs = zip(names, owners, strict=True)
                return {id for id, found in pairs if found == owner.encode()}
        return await self._leases.local.owned(owner, names)  # claims made by this process

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])
        with suppress(*self._server.failures):
            await self._server.redis.zrem(MEMBERS, self._name)
            await self._forget_marks()
        await self._server.redis.aclose()
        if self._rows is not None:
            await self._rows.aclose()

    async def _ask(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        """Run a script and return its reply; `None` while the server is lost."""
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch())
        return await self._server.ask(script, keys, *arguments)

    # -- every second --------------------------------------------------------------------------

    async def _watch(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        await self._server.check_eviction()
        with suppress(*self._server.failures):
            await self._check_data()
        while not task.cancelling():  # the client's `wait_for` may suppress a cancellation
            await asyncio.sleep(SIGN_SECONDS)
            with suppress(*self._server.failures):
                if self._server.is_lost:
                    await self._come_back()
                    await self._look([*self._seen])
                else:
                    await self._check_data()  # first: reading replaces the remembered budgets
                    await self._leases.debts.pay(self._pay)
                    await self._forget_marks()
            await self._look_at_changes()

    async def _look_at_changes(self) -> None:
        """Read the state of the keys whose accounts have changed, and of some other keys."""
        since = self._changes.since
        reply = await self._ask(scripts.CHANGES, [CHANGED, WANTED], since)
        if reply is not None:
            now, changed, wanted = reply
            self._leases.clock.set(float(now))
            self._changes.add(float(now), _names(changed), _names(wanted))
            await self._look(self._changes.due(self._seen))

    async def _look(self, keys: Sequence[str]) -> None:
        """Report the leases of keys, and read their spending and the new leases."""
        for at in range(0, max(1, len(keys)), AT_A_TIME):
            await self._look_at(keys[at : at + AT_A_TIME])

    async def _look_at(self, keys: Sequence[str]) -> None:
        leases = self._leases
        async with self._looking:
            # the second time only for the leases for which other processes may wait
            for _ in range(2):
                names = [name for key in keys for name in (*_account(key), _leases(key))]
                before = [leases.of(key) for key in keys]
                leases.forget_rooms()
                reported: list[Any] = [self._name]
                for key, lease in zip(keys, before, strict=True):
                    reported += [key, *self._budgets.of(key), *lease]
                reply = await self._ask(scripts.LOOK, [MEMBERS, BUDGETS, *names], *reported)
                if reply is None:
                    return
                leases.members = reply[0]
                if keys:
                    leases.clock.set(_spending(keys[0], reply[1][0]).at)
                for key, (row, lease, id) in zip(keys, reply[1:], strict=True):
                    self._seen[key] = _spending(key, row)
                    self._budgets.update(key, self._seen[key], id.decode())
                    leases.grant(key, map(float, lease))
                both = zip(keys, before, strict=True)
                keys = [key for key, lease in both if is_below_half(leases.of(key), lease)]
                if not keys:
                    return

    async def _check_data(self) -> None:
        """Read the mark in Redis; if it has changed, restore what Redis has lost."""
        before = self._mark
        mark = secrets.token_hex(8), int(before is not None)
        self._mark = await self._server.run(scripts.MARK, [BUDGETS], *mark)
        if before is not None and before != self._mark:
            self._budgets.lose_all()
            self._leases.lose_server()
            self._server.set_aside()  # until the running answers are counted again
            await self._server.reconnect()  # ends requests whose replies are now ignored
            await self._restore()

    async def _forget_marks(self) -> None:
        """Delete the marks of the charges whose replies have arrived."""
        marks, self._confirmed = self._confirmed, []
        if marks:
            await self._server.redis.unlink(*marks)

    def _new_id(self) -> str:
        """Return an id for a reservation or a charge."""
        return f"{self._name}-{next(self._charges)}"

    # -- while the server is lost --------------------------------------------------------------

    def _lost(self, error: Exception) -> None:
        self._leases.lose_server()
        log.warning(
            "Redis at %s cannot be reached (%s): this process keeps its share, one of %d, of all "
            "limits until it is back",
            self._server.where, error, self._leases.members,
        )  # fmt: skip

    async def _come_back(self) -> None:
        """Restore the budgets and send the debts; then use the server again."""
        await self._server.reconnect()
        await self._restore()
        log.warning("Redis at %s is back: this process shares all limits again", self._server.where)

    async def _restore(self) -> None:
        """Write the budgets and the number of concurrent answers, and send the debts."""
        for key in self._budgets.keys:
            await self._pay(("", key, int(self._leases.local.now()), 0, 0, 0.0))
        await self._leases.debts.pay(self._pay)
        self._leases.regain_server()
        self._server.regain()

    async def _pay(self, debt: Debt) -> None:
        id, key, *owed = debt
        keys = [*_account(key), BUDGETS, CHANGED, _paid(id)]
        streams = self._leases.streams[key] if self._server.is_lost else ""
        known = self._budgets.of(key)
        await self._server.run(scripts.CHARGE, keys, self._name, streams, 0, *owed, key, *known)


def _names(keys: Iterable[bytes]) -> list[str]:
    return [key.decode() for key in keys]


def _account(key: str) -> list[str]:
    return [f"{PREFIX}{what}:{key}" for what in ("seconds", "dollars", "streams")]


def _id(id: str) -> str:
    return f"{PREFIX}id:{hashlib.sha256(id.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _paid(id: str) -> str:
    return f"{PREFIX}paid:{id}"


def _leases(key: str) -> str:
    return f"{PREFIX}held:{key}"


def _target(target: str) -> str:
    return f"{PREFIX}circuit:{target}"


def _spending(key: str, row: Sequence[Any]) -> Spending:
    requests, tokens, streams, today, month, frees_at, at = row
    return Spending(key, requests, tokens, streams, float(today), float(month), float(at), frees_at)

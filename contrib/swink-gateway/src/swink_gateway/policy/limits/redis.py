"""The ledger of several machines: a Redis server, and what is done while it cannot be reached.

Each request is one script, which Redis runs in one step. Half of what is left of each limit is
leased to the processes, in equal parts, which Redis counts as taken for all others: every second a
process says what it holds, and is told what it holds from then on. While Redis is lost, each lets
through what it holds, so that all together pass no limit, however late who notices; after a minute
without Redis, its part of what a minute allows. What is taken meanwhile is owed, and paid when
Redis is back.

Budgets that Redis loses, all or one, are written again by the processes that remember them. Until
then the key is refused: an index of budgets, and the mark in it, tell a lost budget from a new one.

The rows of the ledger are not in Redis: see `writer`.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import os
import re
import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from attrs import evolve

from swink_core.providers import Clock
from swink_gateway.policy.limits import scripts
from swink_gateway.policy.limits.account import Account
from swink_gateway.policy.limits.debts import Debt, Debts
from swink_gateway.policy.limits.ledger import (
    Allowance,
    Circuit,
    FailedAttempt,
    Refusal,
    Spending,
    StoreError,
    StoreUnavailable,
    Ticket,
    begun,
    periods,
    refusal,
    settled,
)
from swink_gateway.policy.limits.memory import SELF, MemoryLedger
from swink_gateway.policy.limits.rows import Entry, Query, Total
from swink_gateway.policy.limits.writer import RowWriter

__all__ = ["DATA_LOST", "LOST", "RedisLedger"]

log = logging.getLogger(__name__)

PREFIX = "swink:gateway:"

MEMBERS = PREFIX + "members"

BUDGETS = PREFIX + "budgets"
"""The index of budgets: the last day on which each key was charged, and a mark."""

LOST = "swink_gateway_store_lost_total"
"""Counts how often the server could not be reached."""

DATA_LOST = "swink_gateway_store_data_lost_total"
"""Counts how often the server had lost what it kept."""

SIGN_SECONDS = 1.0
"""How often a process looks what was taken, and whether a lost server is back."""

ANSWER_SECONDS = 1.0
"""After which a server that does not answer is lost."""

MOST_CONNECTIONS = 16

ID_SECONDS = 90 * 86400
"""For which an id of a vendor's is recorded: longer than vendors keep answers."""

MOST_LOOKS = 6
"""For how many half seconds a call waits for what others hold and do not need."""

_Numbers = tuple[float, ...]
"""Of one account: requests, tokens, streams, dollars of the day, dollars of the month."""

_Budget = tuple[str, float, float, float]
"""The id of a budget, when it was seen, and its dollars of the day and the month then."""

_UNKNOWN: _Budget = ("", 0.0, 0.0, 0.0)

_NOTHING = (0.0,) * 5
_NO_BOUND = (math.inf,) * 5


_ADDRESS = re.compile(r"unix://.+|rediss?://[^/?\s]*(/[0-9]*)?(\?\S*)?")


class RedisLedger:
    """Keeps everything in the Redis server at an address such as `redis://localhost:6379`.

    Its keys begin with `swink:gateway:` and hold no credential. What is owed while the server is
    lost is kept in `folder`, if there is one, for the other processes of the machine. `counters`
    count by name how often the server was lost, and how often it lost what it kept. `rows` writes
    the rows of the ledger; `None`: there are none. Raises UsageError without the extra, and for
    what is no address.
    """

    def __init__(
        self,
        url: str,
        clock: Clock | None = None,
        folder: Path | None = None,
        counters: Counter[str] | None = None,
        rows: RowWriter | None = None,
    ) -> None:
        try:
            from redis import RedisError
            from redis import asyncio as redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise StoreError(
                "limits cannot be shared: redis is not installed",
                resolution="pip install 'swink-gateway[redis]'",
            ) from error
        try:
            if not _ADDRESS.fullmatch(url):  # of which redis would make another
                raise ValueError(url)
            pool = redis.BlockingConnectionPool.from_url(
                url, max_connections=MOST_CONNECTIONS, timeout=ANSWER_SECONDS,
                socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )  # fmt: skip
            pool.connection_class(**pool.connection_kwargs)  # which knows what may follow a `?`
        except (ValueError, TypeError):  # whose words may be a part of the password
            raise StoreError(
                "limits cannot be shared: the store's url is no address of a Redis server",
                resolution="Give an address such as redis://localhost:6379.",
            ) from None
        self._failures = (RedisError, OSError)
        self._redis: Any = redis.Redis.from_pool(pool)
        self._where = urlsplit(url).hostname or "its socket"
        self._now = None if clock is None else clock.now
        self._scripts = {
            text: self._redis.register_script(text)
            for text in (
                scripts.LOOK, scripts.ADMIT, scripts.CHARGE, scripts.ENTER, scripts.FAIL,
                scripts.MARK,
            )
        }  # fmt: skip
        self._name = secrets.token_hex(8)
        self._process = str(os.getpid())
        self._local = MemoryLedger(clock)
        self._counters = Counter[str]() if counters is None else counters
        self._has_marked = False
        self._is_lost = False
        self._losses = 0
        self._members = 1
        self._rows = rows
        self._seen: dict[str, Spending] = {}
        self._budgets: dict[str, _Budget] = {}
        self._missing: set[str] = set()
        self._leases: dict[str, _Numbers] = {}
        self._rooms: dict[str, _Numbers] = {}
        self._looking = asyncio.Lock()
        self._streams: Counter[str] = Counter()
        self._debts = Debts(folder)
        self._watching: asyncio.Task[None] | None = None

    async def _check_eviction(self) -> None:
        """Warn of a server that may delete budgets when its memory is full."""
        try:
            found = await self._redis.config_get("maxmemory*")
        except self._failures:
            return  # it is lost, which is told elsewhere, or tells nobody its settings
        policy, most = found.get("maxmemory-policy", "noeviction"), found.get("maxmemory", "0")
        if policy != "noeviction" and int(most):
            log.warning(
                "Redis at %s deletes keys when its memory is full (maxmemory-policy %s), budgets "
                "among them: set maxmemory-policy noeviction",
                self._where, policy,
            )  # fmt: skip

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
        said = ["" if limit is None else limit for limit in limits]
        for look in range(MOST_LOOKS):
            if look:
                await asyncio.sleep(SIGN_SECONDS / 2)
            keys = [MEMBERS, *_account(key), _leases(key), BUDGETS]
            mine = self._name, tokens, dollars, *said, int(begins), key, *self._known(key)
            reply = await self._ask(scripts.ADMIT, keys, *mine)
            if reply is None:
                return await self._admit_alone(key, allowance, tokens, dollars, begins)
            admitted, self._members, row, room, id = reply
            taken = _spending(key, row)
            self._remember(key, taken, id.decode(), dollars if admitted == 1 else 0.0)
            if admitted >= 0:
                self._seen[key] = taken
                break
        if admitted == -2:
            raise StoreUnavailable(
                f"Redis at {self._where} has lost the budget of the key {key!r}",
                resolution="It is written again by a process that remembers it, or by hand.",
            )
        if admitted < 1:
            refused = refusal(allowance if begins else allowance.budget, taken)
            assert refused is not None  # the script compared the same numbers
            return refused if admitted == 0 else evolve(refused, retry_after=1.0, spent=False)
        left = [max(0.0, float(number)) for number in room]
        self._leases[key] = _least(self._leases.get(key, _NOTHING), left)
        self._rooms[key] = _least(self._rooms.get(key, left), left)
        self._streams[key] += begins
        return Ticket(key, taken.at, tokens, dollars)

    async def settle(
        self, ticket: Ticket, tokens: int, dollars: float | None, *, ends: bool = True
    ) -> None:
        if self._rows is not None:
            self._rows.put(settled(ticket, tokens, dollars))
        self._streams[ticket.key] -= ends
        more = tokens - ticket.tokens, (dollars or 0.0) - ticket.dollars
        was_lost = self._is_lost
        charged = self._name, "HINCRBY", -int(ends), ticket.at, 0, *more, ticket.key
        keys = [*_account(ticket.key), BUDGETS]
        known = self._known(ticket.key)
        if await self._ask(scripts.CHARGE, keys, *charged, *known) is None:
            if ticket.key in self._local.accounts:
                await self._local.settle(ticket, tokens, dollars, ends=ends)
            if not was_lost:  # it may have heard: what is paid back would be so twice
                more = max(0, more[0]), max(0.0, more[1])
            self._debts.add(ticket.key, ticket.at, 0, *more)

    async def report(self, query: Query) -> list[Total]:
        return [] if self._rows is None else await self._rows.report(query)

    async def entries(self, query: Query) -> list[Entry]:
        return [] if self._rows is None else await self._rows.entries(query)

    async def spending(self, keys: Sequence[str]) -> list[Spending]:
        await self._look(keys)
        return [self._seen.get(key, Spending(key)) for key in keys]

    async def circuit(self, target: str) -> Circuit | None:
        reply = await self._ask(scripts.ENTER, [_target(target)])
        if reply is None:
            return await self._local.circuit(target)
        if not reply:
            return None
        failures, left, kind, message, probe = reply
        return Circuit(failures, float(left), kind.decode(), message.decode(), not float(probe))

    async def failed(self, target: str, failed: FailedAttempt) -> None:
        await self._local.failed(target, failed)
        said = failed.threshold, failed.rest, failed.kind, failed.message, failed.probe
        await self._ask(scripts.FAIL, [_target(target)], int(failed.is_first), *said)

    async def succeeded(self, target: str) -> None:
        await self._local.succeeded(target)
        if not self._is_lost:
            try:
                await self._redis.delete(_target(target))
            except self._failures as error:
                self._lose(error)

    async def claim(self, owner: str, ids: Collection[str]) -> None:
        await self._local.claim(owner, ids)
        if ids and not self._is_lost:
            try:
                async with self._redis.pipeline(transaction=False) as pipeline:
                    for id in ids:
                        pipeline.set(_id(id), owner, nx=True, ex=ID_SECONDS)
                    await pipeline.execute()
            except self._failures as error:
                self._lose(error)

    async def owned(self, owner: str, ids: Collection[str]) -> set[str]:
        names = [*ids]
        if names and not self._is_lost:
            try:
                owners = await self._redis.mget([_id(id) for id in names])
            except self._failures as error:
                self._lose(error)
            else:
                pairs = zip(names, owners, strict=True)
                return {id for id, found in pairs if found == owner.encode()}
        return await self._local.owned(owner, names)  # what this process has claimed

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        with suppress(*self._failures):
            await self._redis.zrem(MEMBERS, self._name)
        await self._redis.aclose()
        if self._rows is not None:
            await self._rows.aclose()

    # -- asking --------------------------------------------------------------------------------

    async def _ask(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        """Return what a script answers; `None` while the server is lost."""
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch())
        if self._is_lost:
            return None
        losses = self._losses
        try:
            reply = await self._run(script, keys, *arguments)
        except self._failures as error:
            self._lose(error)
        return reply if losses == self._losses else None  # what comes too late is not heard

    async def _run(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        now = "" if self._now is None else self._now().timestamp()
        reply = await self._scripts[script](keys=keys, args=[now, *arguments])
        return reply if reply is not None else []

    async def _look(self, keys: Sequence[str]) -> None:
        """Give a sign, see what keys have taken, and be told what to hold of each."""
        names = [name for key in keys for name in (*_account(key), _leases(key))]
        async with self._looking:
            for _ in range(2):  # what is held no more is said at once: others may wait for it
                before = [self._leases.get(key, _NOTHING) for key in keys]
                self._rooms.clear()
                said: list[Any] = [self._name]
                for key, lease in zip(keys, before, strict=True):
                    said += [key, *self._known(key), *lease]
                reply = await self._ask(scripts.LOOK, [MEMBERS, BUDGETS, *names], *said)
                if reply is None:
                    return
                self._members = reply[0]
                for key, (row, lease, id) in zip(keys, reply[1:], strict=True):
                    self._seen[key] = _spending(key, row)
                    self._remember(key, self._seen[key], id.decode())
                    room = self._rooms.get(key, _NO_BOUND)
                    self._leases[key] = _least(room, map(float, lease))
                now = [self._leases[key] for key in keys]
                if all(_least(*two) == two[0] for two in zip(before, now, strict=True)):
                    return

    # -- budgets that may be lost --------------------------------------------------------------

    def _known(self, key: str) -> _Budget:
        """Return this process's memory of a key's budget."""
        return self._budgets.get(key, _UNKNOWN)

    def _remember(self, key: str, taken: Spending, id: str, reserved: float = 0.0) -> None:
        """Remember a key's budget as Redis has it, and what was reserved since."""
        before = self._known(key)[0]
        if not id or (before and before != id):
            self._tell_loss(key, is_restored=bool(id))
        if id:
            self._missing.discard(key)
            today, this_month = taken.dollars_today, taken.dollars_this_month
            self._budgets[key] = id, taken.at, today + reserved, this_month + reserved

    def _tell_loss(self, key: str, is_restored: bool) -> None:
        if key in self._missing:
            return
        self._counters[DATA_LOST] += 1
        if is_restored:
            log.error(
                "Redis at %s has lost the budget of %r: it is written again", self._where, key
            )
            return
        self._missing.add(key)
        log.error(
            "Redis at %s has lost the budget of %r, which this process does not remember: the key "
            "is refused until a process that does writes it again, or you do",
            self._where, key,
        )  # fmt: skip

    # -- while the server is lost --------------------------------------------------------------

    def _lose(self, error: Exception) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._losses += 1
        self._counters[LOST] += 1
        self._local.accounts.clear()
        log.warning(
            "Redis at %s cannot be reached (%s): this process keeps its share, one of %d, of all "
            "limits until it is back",
            self._where, error, self._members,
        )  # fmt: skip

    async def _admit_alone(
        self, key: str, allowance: Allowance, tokens: int, dollars: float, begins: bool
    ) -> Ticket | Refusal:
        share = allowance.share(self._members)
        if key not in self._local.accounts:
            self._local.accounts[key] = self._supposed(key, share)
        ticket = await self._local.admit(key, share, tokens, dollars, begins=begins)
        if isinstance(ticket, Ticket):
            self._streams[key] += begins
            self._debts.add(key, ticket.at, int(begins), tokens, dollars)
        return ticket

    def _supposed(self, key: str, share: Allowance) -> Account:
        """Return an account that leaves to this process what it holds of a key."""
        requests, tokens, streams, today, this_month = self._leases.get(key, _NOTHING)
        now, own = self._local.now(), self._streams[key]
        day, month = periods(now)
        return Account(
            {int(now): ((share.requests or 0.0) - requests, (share.tokens or 0.0) - tokens)},
            {
                day: (share.dollars_a_day or 0.0) - today,
                month: (share.dollars_a_month or 0.0) - this_month,
            },
            {SELF: own, "others": math.ceil((share.streams or 0.0) - own - streams)},
        )

    async def _watch(self) -> None:
        await self._check_eviction()
        with suppress(*self._failures):
            await self._mark()
        while True:
            await asyncio.sleep(SIGN_SECONDS)
            with suppress(*self._failures):
                if self._is_lost:
                    await self._come_back()
                else:
                    await self._mark()  # before a look, which would forget as the server has
                    await self._debts.pay(self._pay)
            await self._look([*self._seen])

    async def _mark(self) -> None:
        """Leave a mark in the index of budgets, and write them again if the mark has vanished."""
        had_marked = int(self._has_marked)
        is_new = await self._run(scripts.MARK, [BUDGETS], self._name, had_marked)
        if is_new and self._has_marked:
            self._counters[DATA_LOST] += 1
            log.error(
                "Redis at %s has lost its data: this process writes the budgets that it remembers "
                "again",
                self._where,
            )  # fmt: skip
            self._missing.update(self._budgets)  # told
            await self._write_again()
        self._has_marked = True

    async def _write_again(self) -> None:
        """Write the budgets of keys that the server has forgotten, and my answers under way."""
        for key in [*self._budgets]:
            await self._pay(("", key, int(self._local.now()), 0, 0, 0.0), written_again=True)

    async def _come_back(self) -> None:
        """Pay what is owed, and tell what may have been forgotten; then ask the server again."""
        await self._redis.ping()
        await self._write_again()
        await self._debts.pay(self._pay)
        self._leases.clear()
        self._is_lost = False
        log.warning("Redis at %s is back: this process shares all limits again", self._where)

    async def _pay(self, debt: Debt, written_again: bool = False) -> None:
        id, key, *owed = debt
        keys = [*_account(key), BUDGETS, f"{PREFIX}paid:{id}"]
        counts_anew = self._is_lost or written_again
        streams = ("HSET", self._streams[key]) if counts_anew else ("HINCRBY", 0)
        known = self._known(key)
        await self._run(scripts.CHARGE, keys, self._name, *streams, *owed, key, *known)


def _account(key: str) -> list[str]:
    return [f"{PREFIX}{what}:{key}" for what in ("seconds", "dollars", "streams")]


def _id(id: str) -> str:
    return f"{PREFIX}id:{hashlib.sha256(id.encode('utf-8', 'surrogateescape')).hexdigest()}"


def _leases(key: str) -> str:
    return f"{PREFIX}leases:{key}"


def _least(one: Iterable[float], other: Iterable[float]) -> _Numbers:
    return tuple(map(min, one, other))


def _target(target: str) -> str:
    return f"{PREFIX}circuit:{target}"


def _spending(key: str, row: Sequence[Any]) -> Spending:
    requests, tokens, streams, today, month, frees_at, at = row
    return Spending(key, requests, tokens, streams, float(today), float(month), float(at), frees_at)

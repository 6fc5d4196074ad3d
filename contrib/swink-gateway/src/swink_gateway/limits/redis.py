"""The ledger of several machines: a Redis server, and what is done while it cannot be reached.

Each request is one script, which Redis runs in one step. While Redis is lost, each process keeps to
its share: what was taken when it was last seen, and the limits, divided by how many processes there
were. Of a key that a process has not seen yet it does not know what is left, and lets nothing
through. What is taken meanwhile is owed, and paid when Redis is back; if Redis forgot what it knew,
it is told again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from swink_core import UsageError
from swink_core.providers import Clock
from swink_gateway.limits import scripts
from swink_gateway.limits.account import Account
from swink_gateway.limits.debts import Debts
from swink_gateway.limits.ledger import (
    Allowance,
    Circuit,
    Refusal,
    Spending,
    Ticket,
    periods,
    refusal,
)
from swink_gateway.limits.memory import SELF, MemoryLedger

__all__ = ["RedisLedger"]

log = logging.getLogger(__name__)

PREFIX = "swink:gateway:"

MEMBERS = PREFIX + "members"

SIGN_SECONDS = 1.0
"""How often a process looks what was taken, and whether a lost server is back."""

ANSWER_SECONDS = 1.0
"""After which a server that does not answer is lost."""

MOST_CONNECTIONS = 16


class RedisLedger:
    """Keeps everything in the Redis server at an address such as `redis://localhost:6379`.

    Its keys begin with `swink:gateway:` and hold no credential. What is owed while the server is
    lost is kept in `folder`, if there is one, for the other processes of the machine. Raises
    UsageError without the extra, and for what is no address.
    """

    def __init__(self, url: str, clock: Clock | None = None, folder: Path | None = None) -> None:
        try:
            from redis import RedisError
            from redis import asyncio as redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise UsageError(
                "limits cannot be shared: redis is not installed",
                resolution="Install swink-gateway[redis].",
            ) from error
        try:
            pool = redis.BlockingConnectionPool.from_url(
                url, max_connections=MOST_CONNECTIONS, timeout=ANSWER_SECONDS,
                socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )  # fmt: skip
        except ValueError as error:
            raise UsageError(
                f"limits cannot be shared: {error}",
                resolution="Give an address such as redis://localhost:6379.",
            ) from error
        self._failures = (RedisError, OSError)
        self._redis: Any = redis.Redis.from_pool(pool)
        self._where = urlsplit(url).hostname or "its socket"
        self._now = None if clock is None else clock.now
        self._scripts = {
            text: self._redis.register_script(text)
            for text in (scripts.LOOK, scripts.ADMIT, scripts.CHARGE, scripts.ENTER, scripts.FAIL)
        }
        self._name = secrets.token_hex(8)
        self._local = MemoryLedger(clock)
        self._is_lost = False
        self._members = 1
        self._seen: dict[str, Spending] = {}
        self._streams: Counter[str] = Counter()
        self._debts = Debts(folder)
        self._watching: asyncio.Task[None] | None = None

    async def admit(
        self, key: str, allowance: Allowance, tokens: int, dollars: float
    ) -> Ticket | Refusal:
        limits = (
            allowance.requests, allowance.tokens, allowance.streams,
            allowance.dollars_a_day, allowance.dollars_a_month,
        )  # fmt: skip
        mine = self._name, self._streams[key], tokens, dollars
        said = ["" if limit is None else limit for limit in limits]
        reply = await self._ask(scripts.ADMIT, [MEMBERS, *_account(key)], *mine, *said)
        if reply is None:
            return await self._admit_alone(key, allowance, tokens, dollars)
        admitted, self._members, row = reply
        taken = self._seen[key] = _spending(key, row)
        if not admitted:
            refused = refusal(allowance, taken)
            assert refused is not None  # the script compared the same numbers
            return refused
        self._streams[key] += 1
        return Ticket(key, taken.at, tokens, dollars)

    async def settle(self, ticket: Ticket, tokens: int, dollars: float) -> None:
        self._streams[ticket.key] -= 1
        more = tokens - ticket.tokens, dollars - ticket.dollars
        if not await self._charge(ticket.key, ticket.at, 0, *more):
            await self._local.settle(ticket, tokens, dollars)
            self._debts.add((ticket.key, int(ticket.at), 0, *more))

    async def spending(self, keys: Sequence[str]) -> list[Spending]:
        if not await self._look(keys):
            return [self._seen.get(key, Spending(key)) for key in keys]
        return [self._seen[key] for key in keys]

    async def circuit(self, target: str, rest: float) -> Circuit | None:
        reply = await self._ask(scripts.ENTER, [_target(target)], rest)
        if reply is None:
            return await self._local.circuit(target, rest)
        if not reply:
            return None
        failures, left, kind, message = reply
        return Circuit(failures, float(left), kind.decode(), message.decode())

    async def failed(
        self, target: str, threshold: int, rest: float, kind: str, message: str
    ) -> None:
        await self._local.failed(target, threshold, rest, kind, message)
        await self._ask(scripts.FAIL, [_target(target)], threshold, rest, kind, message)

    async def succeeded(self, target: str) -> None:
        await self._local.succeeded(target)
        if not self._is_lost:
            try:
                await self._redis.delete(_target(target))
            except self._failures as error:
                self._lose(error)

    async def aclose(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        with suppress(*self._failures):
            await self._redis.zrem(MEMBERS, self._name)
        await self._redis.aclose()

    # -- asking --------------------------------------------------------------------------------

    async def _ask(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        """Return what a script answers; `None` while the server is lost."""
        if self._watching is None:
            self._watching = asyncio.ensure_future(self._watch())
        if self._is_lost:
            return None
        try:
            return await self._run(script, keys, *arguments)
        except self._failures as error:
            self._lose(error)
            return None

    async def _run(self, script: str, keys: Sequence[str], *arguments: Any) -> Any:
        now = "" if self._now is None else self._now().timestamp()
        reply = await self._scripts[script](keys=keys, args=[now, *arguments])
        return reply if reply is not None else []

    async def _look(self, keys: Sequence[str]) -> bool:
        """See what keys have taken, and give a sign; tell whether there was an answer."""
        names = [name for key in keys for name in _account(key)]
        reply = await self._ask(scripts.LOOK, [MEMBERS, *names], self._name)
        if reply is None:
            return False
        self._members = reply[0]
        for key, row in zip(keys, reply[1:], strict=True):
            self._seen[key] = _spending(key, row)
        return True

    async def _charge(
        self, key: str, at: float, requests: int, tokens: int, dollars: float
    ) -> bool:
        arguments = self._name, self._streams[key], at, requests, tokens, dollars, 0, 0
        return await self._ask(scripts.CHARGE, _account(key), *arguments) is not None

    # -- while the server is lost --------------------------------------------------------------

    def _lose(self, error: Exception) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._local.accounts.clear()
        log.warning(
            "Redis at %s cannot be reached (%s): this process keeps its share, one of %d, of all "
            "limits until it is back",
            self._where, error, self._members,
        )  # fmt: skip

    async def _admit_alone(
        self, key: str, allowance: Allowance, tokens: int, dollars: float
    ) -> Ticket | Refusal:
        share = allowance.share(self._members)
        if key not in self._local.accounts:
            self._local.accounts[key] = self._supposed(key, share)
        ticket = await self._local.admit(key, share, tokens, dollars)
        if isinstance(ticket, Ticket):
            self._streams[key] += 1
            self._debts.add((key, int(ticket.at), 1, tokens, dollars))
        return ticket

    def _supposed(self, key: str, share: Allowance) -> Account:
        """Return what this process has to take as its part of what was taken."""
        account = Account(streams={SELF: self._streams[key]})
        now, seen = self._local.now(), self._seen.get(key)
        if seen is None:
            account.seconds[int(now)] = share.requests or 0.0, share.tokens or 0.0
            day, month = periods(now)
            account.dollars[day] = share.dollars_a_day or 0.0
            account.dollars[month] = share.dollars_a_month or 0.0
        else:
            part = seen.requests / self._members, seen.tokens / self._members
            account.seconds[int(seen.at)] = part
            day, month = periods(seen.at)
            account.dollars[day] = seen.dollars_today / self._members
            account.dollars[month] = seen.dollars_this_month / self._members
        return account

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(SIGN_SECONDS)
            if not self._is_lost:
                await self._look([*self._seen])
            else:
                with suppress(*self._failures):
                    await self._come_back()

    async def _come_back(self) -> None:
        """Pay what is owed, and tell what may have been forgotten; then ask the server again."""
        await self._redis.ping()
        for key, seen in [*self._seen.items()]:
            if periods(seen.at) == periods(self._local.now()):
                least = seen.dollars_today, seen.dollars_this_month
                mine = self._name, self._streams[key]
                await self._run(scripts.CHARGE, _account(key), *mine, seen.at, 0, 0, 0.0, *least)
        debts = self._debts.take()
        try:
            while debts or (debts := self._debts.take()):
                key, *owed = debts[-1]
                mine = self._name, self._streams[key]
                await self._run(scripts.CHARGE, _account(key), *mine, *owed, 0, 0)
                debts.pop()
        finally:
            for debt in debts:
                self._debts.add(debt)
        self._is_lost = False
        log.warning("Redis at %s is back: limits are shared again", self._where)


def _account(key: str) -> list[str]:
    return [f"{PREFIX}{what}:{key}" for what in ("seconds", "dollars", "streams")]


def _target(target: str) -> str:
    return f"{PREFIX}circuit:{target}"


def _spending(key: str, row: Sequence[Any]) -> Spending:
    requests, tokens, streams, today, month, frees_at, at = row
    return Spending(key, requests, tokens, streams, float(today), float(month), float(at), frees_at)

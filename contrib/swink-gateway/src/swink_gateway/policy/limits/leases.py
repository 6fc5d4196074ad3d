"""Leases: the part of each limit that is reserved for one process while Redis is unreachable.

Half of the remaining amount of each limit is leased to the processes, in equal parts. When another
process requests an attempt, Redis counts a lease as used. While Redis is unreachable, each process
admits attempts within its lease. After a minute without Redis, a process may use an equal
part of each limit per minute (the limit divided by the number of processes), and no lease.
The other limits still depend on leases. Therefore the processes together exceed no
limit. The charges of attempts during that time are debts, which are sent when Redis can be reached
again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from operator import lt
from pathlib import Path

from swink_core.providers import Clock, LoopClock
from swink_gateway.policy.limits.account import Account
from swink_gateway.policy.limits.debts import Debts
from swink_gateway.policy.limits.ledger import Allowance, Refusal, Ticket
from swink_gateway.policy.limits.memory import SELF, MemoryLedger
from swink_gateway.policy.limits.rows import periods

__all__ = ["Leases", "Numbers", "ServerClock", "is_below_half"]

Numbers = tuple[float, ...]
"""Amounts of an account: requests, tokens, concurrent answers, dollars of the day and the month."""

NOTHING: Numbers = (0.0,) * 5

_NO_BOUND: Numbers = (math.inf,) * 5

LEASED = "the part that this process may admit while Redis cannot be reached"

AGAIN_SECONDS = 5.0
"""The time after which a refused client may try again, because Redis may be back."""


class ServerClock(LoopClock):
    """The clock of the server: its last known time, plus the time that `clock` has measured since.

    While the server is lost, its minutes and days go on by this clock, even if the clock of this
    machine is wrong or is set. Until the server has stated its time, this clock begins with the
    time of `clock` at its first use.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None

    def set(self, now: float) -> None:
        """Set the current time of the server, as a Unix time in seconds."""
        self._began = now - self._clock.time()

    def now(self) -> datetime:
        """Return the current date and time of the server in UTC."""
        if self._began is None:
            self.set(self._clock.now().timestamp())
        assert self._began is not None
        return datetime.fromtimestamp(self._began + self._clock.time(), UTC)


class Leases:
    """The leases of this process, by key.

    `members` is the number of processes that share the limits. While the server is lost, `local`
    counts attempts by the `clock` of the server, and `debts` stores their charges. The debts are
    stored in `folder`, or in memory if it is `None`.
    """

    def __init__(self, clock: Clock | None, folder: Path | None) -> None:
        self.members = 1
        self.clock = ServerClock(clock or LoopClock())
        self.local = MemoryLedger(self.clock)
        self.debts = Debts(folder)
        self.streams: Counter[str] = Counter()
        self._held: dict[str, Numbers] = {}
        self._rooms: dict[str, Numbers] = {}

    def of(self, key: str) -> Numbers:
        """Return the lease of a key."""
        return self._held.get(key, NOTHING)

    def bound(self, key: str, room: Iterable[float], begins: bool) -> None:
        """Reduce a lease to `room`, the amounts that remain after an admission.

        `begins` is true if the admitted attempt is the first one of a call.
        """
        left = [max(0.0, number) for number in room]
        self._held[key] = _least(self.of(key), left)
        self._rooms[key] = _least(self._rooms.get(key, left), left)
        self.streams[key] += begins

    def forget_rooms(self) -> None:
        """Delete the remaining amounts that `bound` has stored since the previous request.

        Call this method before a request for new leases. Redis takes the earlier admissions into
        account when it computes the leases, so only later admissions must reduce them in `grant`.
        """
        self._rooms.clear()

    def grant(self, key: str, lease: Iterable[float]) -> None:
        """Set a lease, reduced by the attempts that were admitted since the lease was requested."""
        self._held[key] = _least(self._rooms.get(key, _NO_BOUND), lease)

    def lose_server(self) -> None:
        """Start to admit attempts without the server."""
        self.local.accounts.clear()

    def regain_server(self) -> None:
        """Give up all leases until the server grants new ones."""
        self._held.clear()

    async def admit(
        self,
        key: str,
        allowance: Allowance,
        tokens: int,
        dollars: float,
        begins: bool,
        id: str,
        *,
        is_sent: bool,
    ) -> Ticket | Refusal:
        """Admit an attempt within the lease while the server is lost, and record a debt.

        `id` is the id of the reservation, and `is_sent` says that the server may have received it.
        """
        share = allowance.share(self.members)
        if key not in self.local.accounts:
            self.local.accounts[key] = self._supposed(key, share)
        ticket = await self.local.admit(key, share, tokens, dollars, begins=begins)
        if isinstance(ticket, Refusal):  # other processes may still have leases of the key
            if is_sent:  # the server keeps or makes the reservation, and then takes it back
                at = self.local.now()
                self.debts.add(key, at, int(begins), tokens, dollars, id)
                self.debts.add(key, at, -int(begins), -tokens, -dollars)
            return Refusal(LEASED, min(ticket.retry_after, AGAIN_SECONDS), spent=False)
        self.streams[key] += begins
        self.debts.add(key, ticket.at, int(begins), tokens, dollars, id)
        return ticket

    async def settle(self, ticket: Ticket, tokens: int, dollars: float | None, ends: bool) -> None:
        """While the server is lost, settle an attempt that was also admitted without the server."""
        if ticket.key in self.local.accounts:
            await self.local.settle(ticket, tokens, dollars, ends=ends)

    def _supposed(self, key: str, share: Allowance) -> Account:
        """Return an account of the key in which everything except the lease is used up."""
        requests, tokens, streams, today, this_month = self.of(key)
        now, own = self.local.now(), self.streams[key]
        day, month = periods(now)
        return Account(
            {int(now): ((share.requests or 0.0) - requests, (share.tokens or 0.0) - tokens)},
            {
                day: (share.dollars_a_day or 0.0) - today,
                month: (share.dollars_a_month or 0.0) - this_month,
            },
            {SELF: own, "others": math.ceil((share.streams or 0.0) - own - streams)},
        )


def is_below_half(lease: Numbers, reported: Numbers) -> bool:
    """Return whether any number of a new lease is less than half of the one that was reported.

    Redis leases half of what remains, and counts the reported lease until the next report. While
    it counts at most twice what the processes hold, these leases alone do not use up a limit.
    """
    return any(map(lt, lease, (number / 2 for number in reported)))


def _least(one: Iterable[float], other: Iterable[float]) -> Numbers:
    """Return, for each position, the smaller of the two numbers."""
    return tuple(map(min, one, other))

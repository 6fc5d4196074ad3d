"""The part of each limit that a process holds, and takes from while Redis is lost.

Half of the rest of each limit is leased to the processes, in equal parts. Redis counts a lease as
taken for all other processes. While Redis is lost, each process admits attempts within its lease;
after a minute, within its part of the limits of a minute. So the processes together exceed no
limit. Meanwhile their charges are debts, which they pay when Redis is back.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from swink_core.providers import Clock
from swink_gateway.policy.limits.account import Account
from swink_gateway.policy.limits.debts import Debts
from swink_gateway.policy.limits.ledger import Allowance, Refusal, Ticket, periods
from swink_gateway.policy.limits.memory import SELF, MemoryLedger

__all__ = ["NOTHING", "Leases", "Numbers", "least"]

Numbers = tuple[float, ...]
"""Of one account: requests, tokens, streams, dollars of the day, dollars of the month."""

NOTHING: Numbers = (0.0,) * 5

_NO_BOUND: Numbers = (math.inf,) * 5

LEASED = "the part that this process may admit while Redis cannot be reached"

AGAIN_SECONDS = 5.0
"""The time after which a refused client may try again, because Redis may be back."""


class Leases:
    """The leases of this process, by key.

    `members` is the number of processes that share the limits. `local` counts attempts while
    the server is lost, and `debts` the charges of these attempts, in `folder` if there is one.
    """

    def __init__(self, clock: Clock | None, folder: Path | None) -> None:
        self.members = 1
        self.local = MemoryLedger(clock)
        self.debts = Debts(folder)
        self.streams: Counter[str] = Counter()
        self._held: dict[str, Numbers] = {}
        self._rooms: dict[str, Numbers] = {}

    def of(self, key: str) -> Numbers:
        """Return the lease of a key."""
        return self._held.get(key, NOTHING)

    def bound(self, key: str, room: Iterable[float], begins: bool) -> None:
        """Reduce a lease to the rest after an admission; `begins`: a call began with it."""
        left = [max(0.0, number) for number in room]
        self._held[key] = least(self.of(key), left)
        self._rooms[key] = least(self._rooms.get(key, left), left)
        self.streams[key] += begins

    def forget_rooms(self) -> None:
        """Forget the bounds of earlier admissions, before new leases are requested."""
        self._rooms.clear()

    def grant(self, key: str, lease: Iterable[float]) -> None:
        """Hold a lease, within the bounds of the admissions since its request."""
        self._held[key] = least(self._rooms.get(key, _NO_BOUND), lease)

    def lose_server(self) -> None:
        """Begin to admit without the server."""
        self.local.accounts.clear()

    def regain_server(self) -> None:
        """Hold nothing until the server grants it."""
        self._held.clear()

    async def admit(
        self, key: str, allowance: Allowance, tokens: int, dollars: float, begins: bool
    ) -> Ticket | Refusal:
        """Admit an attempt without the server, within the lease, and record its debt."""
        share = allowance.share(self.members)
        if key not in self.local.accounts:
            self.local.accounts[key] = self._supposed(key, share)
        ticket = await self.local.admit(key, share, tokens, dollars, begins=begins)
        if isinstance(ticket, Refusal):  # the key may have more than this process holds
            return Refusal(LEASED, min(ticket.retry_after, AGAIN_SECONDS), spent=False)
        self.streams[key] += begins
        self.debts.add(key, ticket.at, int(begins), tokens, dollars)
        return ticket

    async def settle(self, ticket: Ticket, tokens: int, dollars: float | None, ends: bool) -> None:
        """Settle an attempt without the server, if its key was admitted without it."""
        if ticket.key in self.local.accounts:
            await self.local.settle(ticket, tokens, dollars, ends=ends)

    def _supposed(self, key: str, share: Allowance) -> Account:
        """Return an account in which only the lease of a key is left."""
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


def least(one: Iterable[float], other: Iterable[float]) -> Numbers:
    """Return the smaller of each two numbers."""
    return tuple(map(min, one, other))

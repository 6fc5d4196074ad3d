"""The interface of a ledger, and the rule by which it admits attempts.

An attempt is admitted while charges and reservations together are below each limit. Before an
attempt begins, an amount is reserved for it. After the attempt has ended, its charge replaces the
reservation: the attempt is "settled". Each attempt has one row in the ledger, which is written with
the reservation and updated with the charge.
Therefore the spending can exceed a budget by at most

    the largest reservation of an attempt
    + the amounts by which the charges of attempts running at that time exceed their reservations
    + with Redis, while it cannot be reached, one reservation for each process

If a process dies, its running attempts are charged with their reservations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Protocol

from attrs import define, evolve, field

from swink_core import SwinkError, UsageError
from swink_gateway.policy.limits.rows import RESERVED, Entry, Query, Total, new_id

__all__ = [
    "IS_LOST",
    "LOST",
    "MOST_AHEAD_SECONDS",
    "MOST_IDS",
    "MOST_REMEMBERED",
    "WINDOW_SECONDS",
    "Allowance",
    "Circuit",
    "FailedAttempt",
    "Ledger",
    "Refusal",
    "Spending",
    "StoreError",
    "StoreUnavailable",
    "Ticket",
    "begun",
    "counted",
    "refusal",
    "settled",
]

MOST_IDS = 100_000
"""The maximum number of recorded ids of vendors' data.

If there are more, the owner with the most ids loses the oldest of them, so that one key cannot make
the gateway forget the ids of another.
"""

MOST_REMEMBERED = 1000
"""The maximum number of models with recorded failures; the oldest are forgotten first.

The number is limited because clients choose the names of models.
"""

WINDOW_SECONDS = 60
"""The seconds for which requests and tokens count in the limits per minute."""

MOST_AHEAD_SECONDS = 5
"""How many seconds in the future the time of a charge may be.

Charges with later times do not count: a clock was wrong when they were stored.
"""

BUSY_SECONDS = 1.0
"""The `Retry-After` for too many concurrent answers; short, because answers end all the time."""


LOST = "swink_gateway_store_lost_total"
"""The name of the counter that counts how often the store was lost."""

IS_LOST = "swink_gateway_store_is_lost"
"""The name of the gauge that is 1 while the store is lost."""

SETTLED = "settled"
"""The outcome of a settled attempt if no other outcome is known."""


class StoreError(UsageError, title="Limits cannot be kept"):
    """The configured store for limits is invalid."""


class StoreUnavailable(SwinkError, title="Limits cannot be read or written"):
    """The store cannot be read or written at the moment, for example because a disk is full."""


@define(frozen=True)
class Allowance:
    """The limits of one key, for all its clients together; `None` means unlimited.

    `requests` and `tokens` are per minute, `streams` is the number of concurrent answers, and
    dollars are per day and month in UTC.
    """

    requests: float | None = None
    tokens: float | None = None
    streams: float | None = None
    dollars_a_day: float | None = None
    dollars_a_month: float | None = None

    @property
    def budget(self) -> Allowance:
        """The limits for the later attempts of an admitted call: only the budgets in dollars."""
        return evolve(self, requests=None, tokens=None, streams=None)

    def share(self, members: int) -> Allowance:
        """Return the limits for one of `members` processes: each limit divided by `members`."""

        def part(limit: float | None) -> float | None:
            return None if limit is None else limit / members

        return Allowance(
            part(self.requests),
            part(self.tokens),
            part(self.streams),
            part(self.dollars_a_day),
            part(self.dollars_a_month),
        )


@define(frozen=True)
class Spending:
    """The usage of a key in the last minute, today and this month, and its concurrent answers.

    `at` is the time of this state, a Unix time in seconds, and `frees_at` the time at which the
    oldest usage of the last minute expires.
    """

    key: str
    requests: float = 0
    tokens: float = 0
    streams: int = 0
    dollars_today: float = 0.0
    dollars_this_month: float = 0.0
    at: float = 0.0
    frees_at: float = 0.0


@define(frozen=True)
class Refusal:
    """The reason why a call is not admitted: `what` describes the limit.

    `retry_after` is in seconds; `spent` is true if the limit is a budget and not a rate.
    """

    what: str
    retry_after: float
    spent: bool


@define(frozen=True)
class Ticket:
    """An admitted attempt: its time, its reservation, and its row in the ledger."""

    key: str
    at: float
    tokens: int
    dollars: float
    entry: Entry = field(factory=Entry)


def begun(ticket: Ticket, process: str, cost: float | None) -> Ticket:
    """Fill a ticket's row with the reservation; `cost` is `None` for an unknown price."""
    entry = ticket.entry
    entry.id = new_id(ticket.at)
    entry.at = ticket.at
    entry.key = ticket.key
    entry.tokens = ticket.tokens
    entry.cost = cost
    entry.reserved = cost
    entry.outcome = RESERVED
    entry.estimated = 1
    entry.process = process
    return ticket


def settled(ticket: Ticket, tokens: int, dollars: float | None) -> Entry:
    """Return a ticket's row with the charge."""
    entry = ticket.entry
    entry.tokens = tokens
    entry.cost = dollars
    if entry.outcome == RESERVED:
        entry.outcome = SETTLED
    return entry


@define(frozen=True)
class Circuit:
    """A model whose calls failed in a row; `kind` and `message` describe the last failure.

    `rest` is the remaining cooldown in seconds; with 0.0, attempts are admitted. `is_stated` says
    whether the provider stated the length of the cooldown.
    """

    failures: int
    rest: float
    kind: str
    message: str
    is_stated: bool


@define(frozen=True, kw_only=True)
class FailedAttempt:
    """A failed attempt on a target, and the cooldown that begins if too many calls have failed.

    Calls are counted, not attempts: only the first failed attempt of a call (`is_first`) increases
    the number of failed calls. From `threshold` failed calls on, the target has a cooldown of
    `rest` seconds. After the cooldown, one attempt is admitted every `probe` seconds until one
    succeeds (0.0: all attempts are admitted).
    """

    kind: str
    message: str
    is_first: bool = True
    threshold: int
    rest: float
    probe: float


class Ledger(Protocol):
    """Limits, budgets and circuit breakers, shared by all processes of a gateway."""

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
        """Reserve tokens and dollars for an attempt, or return a refusal if a limit is reached.

        `dollars` is `None` for a model without a price. `entry` describes the attempt. `begins` is
        true for the first attempt of a call. Later attempts count neither as requests nor as
        concurrent answers, and only budgets can refuse them.
        """

    async def settle(
        self, ticket: Ticket, tokens: int, dollars: float | None, *, ends: bool = True
    ) -> None:
        """Replace the reservation of a ticket by a charge, and write the ticket's row.

        `ends` says whether the call ends with this attempt.
        """

    async def report(self, query: Query) -> list[Total]:
        """Return sums over the rows of the ledger."""

    async def entries(self, query: Query) -> list[Entry]:
        """Return rows of the ledger, the oldest first."""

    async def running(self, processes: Collection[str]) -> set[str]:
        """Return the names of those `processes` (see `Entry.process`) that still run."""

    async def spending(self, keys: Sequence[str]) -> list[Spending]:
        """Return the spending of each of the keys."""

    async def circuit(self, target: str) -> Circuit | None:
        """Return the state of a target's circuit breaker, for an attempt that begins now.

        The result is `None` if the target has not failed since its last answer.
        """

    async def failed(self, target: str, failed: FailedAttempt) -> None:
        """Record a failed attempt on a target."""

    async def succeeded(self, target: str) -> None:
        """Forget the failures of a target."""

    async def claim(self, owner: str, ids: Collection[str]) -> None:
        """Record the owner of ids of a vendor's data; an id that has an owner keeps that owner."""

    async def owned(self, owner: str, ids: Collection[str]) -> set[str]:
        """Return the subset of ids that an owner has claimed."""

    async def aclose(self) -> None:
        """Close all files and connections."""


def refusal(allowance: Allowance, taken: Spending) -> Refusal | None:
    """Return the refusal of a further attempt; `None` if it can be admitted."""
    for limit, so_far, what, wait, spent in _limits(allowance, taken):
        if limit is not None and so_far >= limit:
            return Refusal(counted(limit, what), max(1.0, wait), spent)
    return None


def counted(limit: float, what: str) -> str:
    """Format a limit with thousands separators and as many decimals as in the configuration."""
    of = what.replace("s a", " a", 1) if limit == 1 else what
    return f"{Decimal(f'{limit:.12g}'):,f} {of}"


_Row = tuple[float | None, float, str, float, bool]


def _limits(allowance: Allowance, taken: Spending) -> Iterable[_Row]:
    """Yield a tuple for each limit.

    The tuple contains the limit, the usage, the unit, the seconds until the usage falls, and
    whether the limit is a budget.
    """
    now = datetime.fromtimestamp(taken.at, UTC)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    first = (midnight.replace(day=1) + timedelta(days=32)).replace(day=1)
    minute = taken.frees_at - taken.at
    day, month = ((end - now).total_seconds() for end in (midnight + timedelta(days=1), first))
    yield allowance.requests, taken.requests, "requests a minute", minute, False
    yield allowance.tokens, taken.tokens, "tokens a minute", minute, False
    yield allowance.streams, taken.streams, "answers at a time", BUSY_SECONDS, False
    yield allowance.dollars_a_day, taken.dollars_today, "US dollars a day", day, True
    yield allowance.dollars_a_month, taken.dollars_this_month, "US dollars a month", month, True

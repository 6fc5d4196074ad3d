"""The interface of a ledger, and the rule by which it admits attempts.

An attempt is admitted while charges and reservations together are below each limit. It is reserved
before it begins, and settled when it has ended: with one row of the ledger, which is written with
the reservation and settled in place. So a budget is exceeded by at most

    the largest reservation of an attempt
    + what the attempts that were under way then are charged beyond their reservations
    + in Redis, while it cannot be reached, one reservation for each process

A process that dies leaves its attempts charged with their reservations.
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
    "periods",
    "refusal",
    "settled",
]

MOST_IDS = 100_000
"""The most ids of vendors' that are recorded, the oldest forgotten first."""

MOST_REMEMBERED = 1000
"""Models whose failures are remembered; the oldest are forgotten, because clients name them."""

WINDOW_SECONDS = 60
"""The window in which requests and tokens count, second by second."""

MOST_AHEAD_SECONDS = 5
"""How far ahead of the clock a second may be and still count, for clocks that were wrong."""

BUSY_SECONDS = 1.0
"""The `Retry-After` for too many concurrent answers, because they end all the time."""


SETTLED = "settled"
"""The outcome of a settled attempt without a known one."""


class StoreError(UsageError, title="Limits cannot be kept"):
    """An invalid place for limits."""


class StoreUnavailable(SwinkError, title="Limits cannot be read or written"):
    """A store that cannot be read or written now, such as a file on a full disk."""


@define(frozen=True)
class Allowance:
    """The limits of all clients of one key together; `None` means unlimited.

    `requests` and `tokens` are per minute, `streams` are concurrent answers, and dollars are per
    day and month of UTC.
    """

    requests: float | None = None
    tokens: float | None = None
    streams: float | None = None
    dollars_a_day: float | None = None
    dollars_a_month: float | None = None

    @property
    def budget(self) -> Allowance:
        """The limits for a further attempt of an admitted call: dollars alone."""
        return evolve(self, requests=None, tokens=None, streams=None)

    def share(self, members: int) -> Allowance:
        """Return the equal part of one process when so many share the limits."""

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

    `at` is the time of this state, in seconds of the epoch, and `frees_at` the time at which the
    first second of the minute no longer counts.
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
    """The reason for which a call is not admitted: `what` is the limit in words.

    `retry_after` is in seconds; `spent`: the limit is a budget and not a rate.
    """

    what: str
    retry_after: float
    spent: bool


@define(frozen=True)
class Ticket:
    """An admitted attempt: its time, its reservation, and its row of the ledger."""

    key: str
    at: float
    tokens: int
    dollars: float
    entry: Entry = field(factory=Entry)


def begun(ticket: Ticket, process: str, cost: float | None) -> Ticket:
    """Fill the row of a ticket with its reservation; `cost` is `None` for an unknown price."""
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
    """Return the row of a ticket with its charge."""
    entry = ticket.entry
    entry.tokens = tokens
    entry.cost = dollars
    if entry.outcome == RESERVED:
        entry.outcome = SETTLED
    return entry


@define(frozen=True)
class Circuit:
    """A model that failed consecutively; `kind` and `message` are those of the last failure.

    `rest` is the cooldown that is left, in seconds; 0.0: attempts are admitted. `is_stated`: the
    provider stated the time.
    """

    failures: int
    rest: float
    kind: str
    message: str
    is_stated: bool


@define(frozen=True, kw_only=True)
class FailedAttempt:
    """A failed attempt on a target, and the cooldown of the target after too many of them.

    `is_first`: it is the first failed attempt of its call. Calls are counted, so only a first one
    adds to the number. From `threshold` calls on, the target has a cooldown of `rest` seconds.
    After that, one attempt is admitted every `probe` seconds until one succeeds; 0.0: all are.
    """

    kind: str
    message: str
    is_first: bool = True
    threshold: int
    rest: float
    probe: float


class Ledger(Protocol):
    """Limits, budgets and circuits, which all processes of a gateway share."""

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
        """Reserve tokens and dollars for an attempt, unless a limit is reached.

        `dollars` is `None` for a model without a price. `entry` describes the attempt. `begins`: a
        call begins with this attempt. A later one counts neither as a request nor as an answer
        under way, and is refused by budgets alone.
        """

    async def settle(
        self, ticket: Ticket, tokens: int, dollars: float | None, *, ends: bool = True
    ) -> None:
        """Replace a reservation by a charge, once for each ticket, and write its row.

        `ends`: the call ends with this attempt.
        """

    async def report(self, query: Query) -> list[Total]:
        """Sum the rows of the ledger."""

    async def entries(self, query: Query) -> list[Entry]:
        """List rows of the ledger, the oldest first."""

    async def running(self, processes: Collection[str]) -> set[str]:
        """Return the processes among these that still run, as `Entry.process` names them."""

    async def spending(self, keys: Sequence[str]) -> list[Spending]:
        """Return the spending of each of the keys."""

    async def circuit(self, target: str) -> Circuit | None:
        """Return the circuit of a target for an attempt that begins now.

        `None`: the target has not failed since it last answered.
        """

    async def failed(self, target: str, failed: FailedAttempt) -> None:
        """Record a failed attempt on a target."""

    async def succeeded(self, target: str) -> None:
        """Forget the failures of a target."""

    async def claim(self, owner: str, ids: Collection[str]) -> None:
        """Record the owner of ids of a vendor; an id that has an owner keeps it."""

    async def owned(self, owner: str, ids: Collection[str]) -> set[str]:
        """Return the ids among these that an owner has claimed."""

    async def aclose(self) -> None:
        """Close all files and connections."""


def periods(at: float) -> tuple[str, str]:
    """Return the names of the day and the month of a time."""
    date = datetime.fromtimestamp(at, UTC)
    return f"{date:%Y-%m-%d}", f"{date:%Y-%m}"


def refusal(allowance: Allowance, taken: Spending) -> Refusal | None:
    """Return the refusal of a further attempt; `None` if it is admitted."""
    for limit, so_far, what, wait, spent in _limits(allowance, taken):
        if limit is not None and so_far >= limit:
            return Refusal(counted(limit, what), max(1.0, wait), spent)
    return None


def counted(limit: float, what: str) -> str:
    """Format a limit with separators, and with the decimals of the configuration."""
    of = what.replace("s a", " a", 1) if limit == 1 else what
    return f"{Decimal(f'{limit:.12g}'):,f} {of}"


_Row = tuple[float | None, float, str, float, bool]


def _limits(allowance: Allowance, taken: Spending) -> Iterable[_Row]:
    """Yield each limit with the usage, the unit, the seconds until it falls, and `spent`."""
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

"""The account of one key and the circuit breaker of one model: their state and their rules."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from swink_gateway.policy.limits.ledger import (
    MOST_AHEAD_SECONDS,
    WINDOW_SECONDS,
    Allowance,
    Circuit,
    FailedAttempt,
    Refusal,
    Spending,
    Ticket,
    refusal,
)
from swink_gateway.policy.limits.rows import periods

__all__ = ["Account", "Breaker"]


class Account(Struct):
    """The usage of a key.

    It counts requests and tokens for each second, dollars for each day and month, and concurrent
    answers for each process.
    """

    seconds: dict[int, tuple[float, float]] = field(default_factory=dict)
    dollars: dict[str, float] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)

    def spending(self, key: str, now: float, is_alive: Callable[[str], bool]) -> Spending:
        """Return the current spending; drop counts of old seconds, and of processes that ended."""
        first, last = int(now) - WINDOW_SECONDS, int(now) + MOST_AHEAD_SECONDS
        self.seconds = {at: taken for at, taken in self.seconds.items() if first <= at <= last}
        self.streams = {name: count for name, count in self.streams.items() if is_alive(name)}
        day, month = periods(now)
        return Spending(
            key,
            sum(requests for requests, _ in self.seconds.values()),
            sum(tokens for _, tokens in self.seconds.values()),
            sum(self.streams.values()),
            self.dollars.get(day, 0.0),
            self.dollars.get(month, 0.0),
            now,
            min(self.seconds, default=first) + WINDOW_SECONDS + 1.0,
        )

    def admit(
        self,
        allowance: Allowance,
        ticket: Ticket,
        process: str,
        is_alive: Callable[[str], bool],
        begins: bool = True,
    ) -> Refusal | None:
        """Reserve an attempt, or return a refusal if a limit is reached.

        `begins` is true for the first attempt of a call.
        """
        taken = self.spending(ticket.key, ticket.at, is_alive)
        if refused := refusal(allowance if begins else allowance.budget, taken):
            return refused
        current = periods(ticket.at)
        self.dollars = {name: paid for name, paid in self.dollars.items() if name in current}
        self.charge(ticket.at, int(begins), ticket.tokens, ticket.dollars)
        self.streams[process] = self.streams.get(process, 0) + begins
        return None

    def settle(
        self, ticket: Ticket, tokens: int, dollars: float, process: str, ends: bool = True
    ) -> None:
        """Replace a reservation by a charge. With `ends`, the call has ended."""
        self.charge(ticket.at, 0, tokens - ticket.tokens, dollars - ticket.dollars)
        self.streams[process] = self.streams.get(process, int(ends)) - ends

    def charge(self, at: float, requests: int, tokens: int, dollars: float) -> None:
        """Add requests and tokens to the counts of a second, and dollars to its day and month.

        `spending` later removes old seconds.
        """
        before = self.seconds.get(int(at), (0, 0))
        self.seconds[int(at)] = before[0] + requests, before[1] + tokens
        for period in periods(at) if dollars else ():
            self.dollars[period] = self.dollars.get(period, 0.0) + dollars


class Breaker(Struct):
    """The number of consecutive failed calls of a model, and the end of the cooldown (0.0: none).

    After the cooldown, one attempt is admitted every `probe` seconds (0.0: all attempts). `longest`
    is the longer of the cooldown and `probe`. The remaining wait never exceeds `longest`, even if
    the clock is set back.
    """

    failures: int = 0
    until: float = 0.0
    kind: str = ""
    message: str = ""
    probe: float = 0.0
    longest: float = float("inf")

    def enter(self, now: float) -> Circuit:
        """Return the state of the circuit for an attempt that begins now."""
        self.until = min(self.until, now + self.longest)
        left = self.until - now
        if self.until and self.probe and left <= 0:
            self.until = now + self.probe
        return Circuit(self.failures, max(0.0, left), self.kind, self.message, not self.probe)

    def fail(self, now: float, failed: FailedAttempt) -> None:
        """Record a failed attempt."""
        self.failures += failed.is_first
        if self.failures >= failed.threshold:
            self.until = now + failed.rest
            self.probe = failed.probe
            self.longest = max(failed.rest, failed.probe)
            self.kind = failed.kind
            self.message = failed.message

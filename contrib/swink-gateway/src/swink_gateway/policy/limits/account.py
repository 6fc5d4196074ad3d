"""The account of one key, and the circuit of one model: what is kept, and how it is counted."""

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
    periods,
    refusal,
)

__all__ = ["Account", "Breaker"]


class Account(Struct):
    """What a key took: requests and tokens by second, dollars by period, answers by process."""

    seconds: dict[int, tuple[float, float]] = field(default_factory=dict)
    dollars: dict[str, float] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)

    def spending(self, key: str, now: float, is_alive: Callable[[str], bool]) -> Spending:
        """Return what was taken, without that which no longer counts."""
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
        """Reserve an attempt, unless a limit is reached; `begins`: no other attempt preceded it."""
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
        """Replace a reservation by a charge; the call has ended with it if it `ends`."""
        self.charge(ticket.at, 0, tokens - ticket.tokens, dollars - ticket.dollars)
        self.streams[process] = self.streams.get(process, int(ends)) - ends

    def charge(self, at: float, requests: int, tokens: int, dollars: float) -> None:
        """Add to what was taken at a time; what no longer counts then is dropped at a look."""
        before = self.seconds.get(int(at), (0, 0))
        self.seconds[int(at)] = before[0] + requests, before[1] + tokens
        for period in periods(at) if dollars else ():
            self.dollars[period] = self.dollars.get(period, 0.0) + dollars


class Breaker(Struct):
    """The calls in a row that failed on a model, and until when it rests (0.0: it does not).

    `probe` is the interval, in seconds, at which single attempts may ask after that (0.0: all may);
    `longest` is the longest of both waits, which a clock that is put back does not lengthen.
    """

    failures: int = 0
    until: float = 0.0
    kind: str = ""
    message: str = ""
    probe: float = 0.0
    longest: float = float("inf")

    def enter(self, now: float) -> Circuit:
        """Return the circuit for an attempt that begins now."""
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

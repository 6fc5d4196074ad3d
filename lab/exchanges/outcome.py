"""The outcome of an exchange, and the checks that all kinds share."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from lab.exchanges.plan import Conversation, Plan
from lab.exchanges.talk import Seen
from lab.vendor import Exchange, Vendor

__all__ = [
    "Outcome",
    "attempts",
    "break_request",
    "is_silent",
    "least",
    "requests_since",
    "strangers",
]


_LEAST = 0.4
"""The least part of the bill for a prompt that its estimate may be.

docs/how-to/gateway-budgets.md has 0.5 for whole loads; a single short prompt may be less.
"""


@dataclass(slots=True)
class Outcome:
    """The outcome of an exchange: disagreements, and counts of requests and answers."""

    plan: Plan
    disagreements: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)


def break_request(vendor: Vendor, talk: Conversation) -> None:
    """Queue the fault of a conversation for its next request."""
    assert talk.fault is not None
    path = "/api/chat" if talk.target.api == "ollama" else None
    vendor.state.faults.add(replace(talk.fault, account=talk.tenant, path=path))


def is_silent(talk: Conversation) -> bool:
    """Return whether the vendor falls silent, for which the time limits are short."""
    return talk.fault is not None and talk.fault.kind == "silence"


async def requests_since(vendor: Vendor, account: str, since: int) -> list[Exchange]:
    """Return an account's requests after a number, once all of them have ended."""
    for _ in range(2_000):
        found = vendor.state.record.of(account, since)
        if all(each.until is not None for each in found):
            break
        await asyncio.sleep(0.001)
    return [each for each in vendor.state.record.of(account, since) if _generates(each)]


def strangers(vendor: Vendor, tenants: Collection[str]) -> Iterator[str]:
    """Yield the requests to the vendor without the key of one of these tenants."""
    for each in vendor.state.record.exchanges:
        if each.account not in tenants:
            yield (
                f"tenant: {each.method} {each.path} is of {each.account}, not of {set(tenants)}; "
                f"status {each.status}, headers {each.headers}"
            )


def least(exchange: Exchange, characters: int = 0) -> float:
    """Return the least estimated charge for a request, in US dollars.

    A charge covers the prompt, and the output that was read before the end: a vendor bills also
    what it wrote after that. `characters` is the number that the caller saw of the output.
    """
    charge = exchange.charge
    if charge is None:
        return 0.0
    written = sum(len(part["text"]) for part in (exchange.produced or [[]])[0])
    part = min(characters / written, 1.0) if written else 0.0
    return _LEAST * float(charge.prompt_cost + (charge.cost - charge.prompt_cost) * Decimal(part))


def _generates(exchange: Exchange) -> bool:
    """Tell whether a request asks for an answer, and not about a model."""
    return exchange.method == "POST" and not exchange.path.endswith("/api/show")


def attempts(talk: Conversation, exchanges: Sequence[Exchange], seen: Seen) -> Iterator[str]:
    """Yield where there were more or fewer requests than the retries allow.

    A policy counts retries for each kind of failure.
    """
    number = len(exchanges)
    failed = seen.failed
    stale = sum(
        1
        for each in exchanges[:-1]
        if each.fault is not None and each.fault["kind"] in ("cut", "reset", "kill")
    )
    kinds = {each.fault["kind"] if each.fault else each.status for each in exchanges[:-1]}
    if number - min(stale, 1) > 1 + talk.retries * len(kinds):
        yield f"requests: {number}, with {talk.retries} retries"
    if is_silent(talk):
        return  # an attempt may have ended before its request was sent
    known = failed is not None and failed.exception is not None
    if failed is not None and known and not number - 1 <= failed.attempts <= number:
        yield f"requests: {number}, and the exception says {failed.attempts} attempts"
    for each in exchanges[:-1]:
        parts = [part for choice in each.produced for part in choice]
        is_empty = not any(part["text"] for part in parts if part["type"] != "thought")
        if each.ended == "complete" and each.fault is None and not is_empty:
            yield "requests: one that was answered whole was made again"

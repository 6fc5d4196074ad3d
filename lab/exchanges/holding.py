"""Hold the conversations of a plan, and compare each request with the record."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import swink
from lab.exchanges import compare, library
from lab.exchanges.failures import kinds_of
from lab.exchanges.plan import Conversation, Plan, result_of
from lab.exchanges.talk import Entry, Said, Seen, User
from lab.vendor import Exchange, ManualClock, Vendor

__all__ = ["Outcome", "hold", "requests_since"]

_RETRYABLE = ("throttled", "overloaded", "network", "empty_response", "timeout", "protocol")
_FEWER = ("content_type", "tls", "connection_refused", "redirect", "first_event")


@dataclass(slots=True)
class Outcome:
    """What came of an exchange: its disagreements, and counts of what happened."""

    plan: Plan
    disagreements: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)


async def hold(plan: Plan) -> Outcome:
    """Hold an exchange of the library."""
    outcome = Outcome(plan)
    keys = {talk.tenant: [f"key-{talk.tenant}"] for talk in plan.conversations}
    async with Vendor(keys, clock=ManualClock(), seed=plan.number) as vendor:
        if any(talk.leave_at is not None for talk in plan.conversations):
            vendor.state.tokens_per_second = 50
        async with asyncio.TaskGroup() as group:
            for talk in plan.conversations:
                group.create_task(_of_library(plan, talk, vendor, outcome))
        accounts = {each.account for each in vendor.state.record.exchanges}
        if None in accounts or not accounts <= keys.keys():
            outcome.disagreements.append(f"tenant: requests of {accounts}, not {set(keys)}")
    return outcome


async def _of_library(plan: Plan, talk: Conversation, vendor: Vendor, outcome: Outcome) -> None:
    own = talk.target.options(vendor.url, f"key-{talk.tenant}")
    async with swink.Client(providers={talk.target.provider: own}) as client:
        entries: list[Entry] = list(talk.history)
        chance = random.Random(f"results {plan.seed} {plan.number}")
        prompts = list(talk.prompts)
        entries.append(prompts.pop(0))
        since = 0
        for turn in range(talk.live):
            if talk.fault is not None and turn == talk.fault_at:
                _break(vendor, talk)
            seen = await library.ask(client, talk, entries, plan.kind, turn)
            exchanges = await requests_since(vendor, talk.tenant, since)
            vendor.state.faults.clear()
            since = max([since, *(each.number for each in exchanges)])
            knows = None if plan.kind == "complete" else seen.named
            for problem in judged(talk, entries, exchanges, seen, knows, outcome):
                outcome.disagreements.append(f"{talk.tenant} {talk.target.name} ({talk.target.api}), turn {turn}: {problem}")
            if seen.failed is not None or seen.left:
                break
            entries.append(library.said_of(seen))
            if seen.calls:
                entries += [result_of(chance, call) for call in seen.calls]
            elif prompts:
                entries.append(prompts.pop(0))
            else:
                break


def _break(vendor: Vendor, talk: Conversation) -> None:
    from dataclasses import replace

    assert talk.fault is not None
    path = "/api/chat" if talk.target.api == "ollama" else None
    vendor.state.faults.add(replace(talk.fault, account=talk.tenant, path=path))


async def requests_since(vendor: Vendor, account: str, since: int) -> list[Exchange]:
    """Return an account's requests after a number, once all of them have ended."""
    for _ in range(2_000):
        found = vendor.state.record.of(account, since)
        if all(each.until is not None for each in found):
            break
        await asyncio.sleep(0.001)
    return [each for each in vendor.state.record.of(account, since) if _generates(each)]


def _generates(exchange: Exchange) -> bool:
    """Tell whether a request asks for an answer, and not about a model."""
    return exchange.method == "POST" and not exchange.path.endswith("/api/show")


def judged(
    talk: Conversation,
    entries: Sequence[Entry],
    exchanges: Sequence[Exchange],
    seen: Seen,
    named: Sequence[str] | None,
    outcome: Outcome,
) -> Iterator[str]:
    """Yield the disagreements about one call and the requests that it made."""
    yield from seen.problems
    failed = seen.failed
    outcome.counts["requests"] += len(exchanges)
    if not exchanges:
        if failed is None:
            yield "requests: the caller has an answer, the vendor no request"
        elif failed.kind != "unsupported":
            yield f"requests: none, and {failed.exception}: {failed.message[:200]}"
        else:
            outcome.counts["unsupported"] += 1
        return
    for exchange in exchanges:
        if exchange.body:
            yield from compare.arrived(exchange, talk, entries, named)
    yield from _attempts(talk, exchanges, seen)
    last = exchanges[-1]
    if seen.left:
        outcome.counts["left"] += 1
        yield from compare.partial(last, seen)
        yield from _charged(last, seen, outcome)
    elif failed is not None:
        outcome.counts["failed"] += 1
        yield from compare.failure(last, seen)
        if last.ended == "complete" and last.fault is None and failed.kind != "empty_response":
            yield f"failure: {failed.exception} although the answer was sent whole"
    else:
        outcome.counts["complete"] += 1
        yield from compare.answer(last, seen, usage=last.ended == "complete")


def _attempts(talk: Conversation, exchanges: Sequence[Exchange], seen: Seen) -> Iterator[str]:
    """Yield where there were more or fewer requests than the retries allow."""
    number = len(exchanges)
    failed = seen.failed
    stale = sum(
        1
        for each in exchanges[:-1]
        if each.fault is not None and each.fault["kind"] in ("cut", "reset", "kill")
    )
    if number - min(stale, 1) > 1 + talk.retries:
        yield f"requests: {number}, with {talk.retries} retries"
    if failed is not None and not number - 1 <= failed.attempts <= number:
        yield f"requests: {number}, and the exception says {failed.attempts} attempts"
    for each in exchanges[:-1]:
        if each.ended == "complete" and each.fault is None:
            yield "requests: one that was answered whole was made again"


def _charged(exchange: Exchange, seen: Seen, outcome: Outcome) -> Iterator[str]:
    if exchange.charge is None or seen.charge is None:
        return
    bill = float(exchange.charge.cost)
    if bill and not seen.charge:
        yield f"bill: {bill} for a call that was left, and the caller is charged nothing"
    if bill:
        outcome.ratios.append(seen.charge / bill)


_ = (kinds_of, _RETRYABLE, _FEWER, Said, User)

"""Hold the conversations of a plan, and compare each request with the record."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import swink
from lab.exchanges import compare, library, runs
from lab.exchanges.outcome import (
    Outcome,
    attempts,
    break_request,
    is_silent,
    least,
    requests_since,
    strangers,
)
from lab.exchanges.plan import Conversation, Plan, result_of
from lab.exchanges.talk import Entry, Seen, said_of
from lab.vendor import Exchange, ManualClock, Vendor

__all__ = ["converse", "hold", "judged"]

_WHOLE = {"run": runs.run, "gather": runs.gather, "answer": runs.answer}
"""The kinds that are one call of the library."""


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
        outcome.disagreements += strangers(vendor, keys.keys())
    return outcome


async def _of_library(plan: Plan, talk: Conversation, vendor: Vendor, outcome: Outcome) -> None:
    own = talk.target.options(vendor.url, f"key-{talk.tenant}")
    async with swink.Client(providers={talk.target.provider: own}) as client:
        if plan.kind in _WHOLE:
            for problem in await _WHOLE[plan.kind](client, talk, vendor, outcome):
                name = f"{talk.target.name} ({talk.target.api})"
                outcome.disagreements.append(f"{talk.tenant} {name}: {problem}")
            return
        await converse(plan, talk, vendor, client, outcome)


async def converse(
    plan: Plan,
    talk: Conversation,
    vendor: Vendor,
    client: swink.Client,
    outcome: Outcome,
    model: str | None = None,
) -> None:
    """Hold a conversation by calls of the library; `model` replaces its target's name."""
    entries: list[Entry] = list(talk.history)
    chance = random.Random(f"results {plan.seed} {plan.number}")
    prompts = list(talk.prompts)
    entries.append(prompts.pop(0))
    since = 0
    for turn in range(talk.live):
        if talk.fault is not None and turn == talk.fault_at:
            break_request(vendor, talk)
        seen = await library.ask(client, talk, entries, plan.kind, turn, model)
        exchanges = await requests_since(vendor, talk.tenant, since)
        vendor.state.faults.clear()
        since = max([since, *(each.number for each in exchanges)])
        knows = None if plan.kind == "complete" else seen.named
        for problem in judged(talk, entries, exchanges, seen, knows, outcome):
            outcome.disagreements.append(
                f"{talk.tenant} {talk.target.name} ({talk.target.api}), turn {turn}: {problem}"
            )
        if seen.failed is not None or seen.left:
            break
        entries.append(said_of(seen))
        if seen.calls:
            entries += [result_of(chance, call) for call in seen.calls]
        elif prompts:
            entries.append(prompts.pop(0))
        else:
            break


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
    if failed is not None and failed.kind == "timeout" and is_silent(talk) and not exchanges:
        return
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
    yield from attempts(talk, exchanges, seen)
    last = exchanges[-1]
    if seen.left:
        outcome.counts["left"] += 1
        yield from compare.partial(last, seen)
        yield from _charged(last, seen, outcome)
    elif failed is not None:
        outcome.counts["failed"] += 1
        if is_silent(talk) and last.fault is None and failed.kind == "timeout":
            return  # the time limits are short, and the machine may be slow
        yield from compare.failure(last, seen)
        if last.ended == "complete" and last.fault is None and failed.kind != "empty_response":
            yield f"failure: {failed.exception} although the answer was sent whole"
    else:
        outcome.counts["complete"] += 1
        yield from compare.answer(last, seen, usage=last.ended == "complete")


def _charged(exchange: Exchange, seen: Seen, outcome: Outcome) -> Iterator[str]:
    """Yield where the charge for a call that was left is outside its bounds."""
    if exchange.charge is None or seen.charge is None:
        return
    bill = float(exchange.charge.cost)
    if not bill:
        return
    outcome.ratios.append(seen.charge / bill)
    if seen.charge < least(exchange, len(seen.text) + len(seen.thinking)):
        yield f"bill: {bill} for a call that was left, and the charge is {seen.charge}"
    if seen.reserved is not None and seen.charge > seen.reserved * (1 + 1e-9):
        yield f"bill: a charge of {seen.charge} beyond the reservation {seen.reserved}"

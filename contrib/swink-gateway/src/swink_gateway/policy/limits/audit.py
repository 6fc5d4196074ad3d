"""Compare the budgets in a store with the ledger, and list attempts without a final charge.

The budgets and the rows of the ledger agree for each key, day and month, with two exceptions: rows
that a process had not written when it was killed, and rows in the ledger of another machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from attrs import define

from swink_gateway.policy.limits.ledger import Ledger
from swink_gateway.policy.limits.rows import LEAST, RESERVED, Entry, Query, begin_of, periods

__all__ = ["Difference", "Findings", "audited"]

LOOKS = 3
"""How many comparisons in a row must find a difference before it is reported.

Attempts that begin or end during a comparison cause differences that are not errors.
"""

LOOK_SECONDS = 1.0

LONGEST_ATTEMPT_SECONDS = 86400
"""The longest time that an attempt can take.

If an older attempt still seems to run, its process has died, and the operating system has given the
process id to another process.
"""


@define(frozen=True)
class Difference:
    """A day or month in which a key's budget differs from the sum of the ledger's rows.

    `store` is the spending in the budget, and `ledger` is the sum of the rows, both in US dollars.
    """

    key: str
    period: str
    store: float
    ledger: float


@define(frozen=True)
class Findings:
    """The result of an audit: rows without a final charge (`unsettled`), and the differences.

    In the sums of the ledger, a row without a final charge counts with the amount that it reserved.
    """

    unsettled: Sequence[Entry]
    differences: Sequence[Difference]


async def audited(ledger: Ledger, keys: Sequence[str], now: float) -> Findings:
    """Audit the budgets of keys in the day and the month of `now`, a Unix time in seconds."""
    seen: dict[tuple[str, str], Difference] = {}
    for look in range(LOOKS):
        if look:
            await asyncio.sleep(LOOK_SECONDS)
        found = {(one.key, one.period): one for one in await _compared(ledger, keys, now)}
        if look:
            found = {at: one for at, one in found.items() if at in seen}
        seen = found
        if not seen:
            break
    reserved = await ledger.entries(Query(where={"outcome": frozenset({RESERVED})}))
    running = await ledger.running({entry.process for entry in reserved})
    unsettled = [
        entry
        for entry in reserved
        if entry.process not in running or now - entry.at > LONGEST_ATTEMPT_SECONDS
    ]
    return Findings(unsettled, [*seen.values()])


async def _compared(ledger: Ledger, keys: Sequence[str], now: float) -> list[Difference]:
    before = await ledger.spending(keys)
    names = periods(now)
    sums: dict[tuple[str, str], float] = {}
    for dimension, period in zip(("day", "month"), names, strict=True):
        query = Query(by=("key", dimension), since=begin_of(names[1]))
        for total in await ledger.report(query):
            if total.by[dimension] == period:
                sums[total.by["key"], period] = total.cost
    after = await ledger.spending(keys)
    found = []
    for one, other in zip(before, after, strict=True):
        stored = (
            (one.dollars_today, other.dollars_today),
            (one.dollars_this_month, other.dollars_this_month),
        )
        for period, both in zip(names, stored, strict=True):
            has = sums.get((one.key, period), 0.0)
            margin = LEAST * max(1.0, has)
            if not min(both) - margin <= has <= max(both) + margin:
                found.append(Difference(one.key, period, both[1], has))
    return found

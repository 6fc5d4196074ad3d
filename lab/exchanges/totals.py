"""Hold exchanges in an event loop, and add up what was seen.

Other processes import this module, and cannot import `__main__`.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from lab.exchanges import gateway, holding, kills
from lab.exchanges.outcome import Outcome
from lab.exchanges.plan import GATEWAY, Plan, plan_of

__all__ = ["Totals", "run"]

_SECONDS = 300.0
"""How long an exchange may take, and `_TURN_SECONDS` more for each turn."""

_TURN_SECONDS = 5.0
"""On a busy machine, a turn of a long conversation takes more than a second."""


@dataclass(slots=True)
class Totals:
    """The sums over many exchanges. `ratios` are estimated charges divided by the bill."""

    kinds: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    bad: int = 0

    def add(self, other: Totals) -> None:
        """Add the sums of other exchanges."""
        self.kinds += other.kinds
        self.counts += other.counts
        self.ratios += other.ratios
        self.turns += other.turns
        self.bad += other.bad


def run(seed: int, numbers: Sequence[int], only: str | None, at_once: int) -> Totals:
    """Run exchanges in an event loop, and print their disagreements."""
    return asyncio.run(_all(seed, numbers, only, at_once))


async def _all(seed: int, numbers: Sequence[int], only: str | None, at_once: int) -> Totals:
    waiting = iter(numbers)
    totals = Totals()

    async def work() -> None:
        for number in waiting:
            plan = plan_of(seed, number, only)
            outcome = await _held(plan, alone=len(numbers) == 1)
            totals.kinds[plan.kind] += 1
            totals.counts += outcome.counts
            totals.ratios += outcome.ratios
            totals.turns += [talk.turns for talk in plan.conversations]
            totals.bad += bool(outcome.disagreements)
            for problem in outcome.disagreements:
                print(f"{seed}:{number} {plan.kind} {problem}", flush=True)

    await asyncio.gather(*(work() for _ in range(at_once)))
    return totals


async def _held(plan: Plan, *, alone: bool) -> Outcome:
    """Hold an exchange; an exception of it is a disagreement."""
    turns = sum(conversation.turns for conversation in plan.conversations)
    try:
        return await asyncio.wait_for(_hold(plan), _SECONDS + _TURN_SECONDS * turns)
    except Exception as error:
        if alone:
            traceback.print_exc()
        inner: BaseException = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        return Outcome(plan, [f"{type(inner).__name__}: {inner}"])


async def _hold(plan: Plan) -> Outcome:
    if plan.kind == "kill":
        return await kills.hold(plan)
    if plan.kind in GATEWAY:
        return await gateway.hold(plan)
    return await holding.hold(plan)

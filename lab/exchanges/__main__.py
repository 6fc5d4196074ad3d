"""Run exchanges: python -m lab.exchanges --seed 7 [--count 10000] [--only KIND] [--number K]."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from lab.exchanges import gateway, holding, kills
from lab.exchanges.outcome import Outcome
from lab.exchanges.plan import GATEWAY, KINDS, Plan, plan_of

__all__ = ["Totals", "main", "run"]

_SECONDS = 300.0
"""How long an exchange may take."""


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run exchanges; return 1 if there is a disagreement."""
    parser = argparse.ArgumentParser(prog="lab.exchanges", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--number", type=int, help="this exchange alone")
    parser.add_argument("--only", choices=sorted(KINDS), help="draw this kind alone")
    parser.add_argument("--at-once", type=int, default=4, help="in each process")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args(arguments)
    numbers = list(range(given.count)) if given.number is None else [given.number]
    began = time.monotonic()
    totals = Totals()
    parts = [numbers[at :: given.processes] for at in range(given.processes)]
    if given.processes == 1:
        totals = run(given.seed, numbers, given.only, given.at_once)
    else:
        with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
            each = [pool.submit(run, given.seed, part, given.only, given.at_once) for part in parts]
            for future in each:
                totals.add(future.result())
    _report(totals, len(numbers), time.monotonic() - began)
    return 1 if totals.bad else 0


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
    try:
        return await asyncio.wait_for(_hold(plan), _SECONDS)
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


def _report(totals: Totals, number: int, seconds: float) -> None:
    turns = sorted(totals.turns)
    kinds = ", ".join(f"{name} {count}" for name, count in sorted(totals.kinds.items()))
    counts = ", ".join(f"{name} {count}" for name, count in sorted(totals.counts.items()))
    print(f"{number} exchanges in {seconds:.0f} s ({number / seconds:.1f} a second): {kinds}")
    print(f"turns: median {turns[len(turns) // 2]}, most {turns[-1]}; {counts}")
    if totals.ratios:
        ratios = sorted(totals.ratios)
        middle = ratios[len(ratios) // 2]
        print(
            f"estimated charge / bill: {ratios[0]:.2f} to {ratios[-1]:.2f}, median {middle:.2f}, "
            f"{len(ratios)} of them"
        )
    print(f"{totals.bad} exchanges with disagreements")


if __name__ == "__main__":
    sys.exit(main())

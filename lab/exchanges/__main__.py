"""Run exchanges: python -m lab.exchanges --seed 7 [--count 10000] [--only KIND] [--number K]."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter

from lab.exchanges import gateway, holding
from lab.exchanges.outcome import Outcome
from lab.exchanges.plan import KINDS, PROTOCOLS, Plan, plan_of


def main() -> int:
    """Run the exchanges; return 1 if there is a disagreement."""
    parser = argparse.ArgumentParser(prog="lab.exchanges", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--number", type=int, help="this exchange alone")
    parser.add_argument("--only", choices=sorted(KINDS))
    parser.add_argument("--at-once", type=int, default=4)
    given = parser.parse_args()
    numbers = range(given.count) if given.number is None else [given.number]
    return asyncio.run(_all(given.seed, list(numbers), given.only, given.at_once))


async def _hold(plan: Plan) -> Outcome:
    door = gateway if plan.kind in PROTOCOLS else holding
    return await door.hold(plan)


async def _all(seed: int, numbers: list[int], only: str | None, at_once: int) -> int:
    began = time.monotonic()
    cpu = time.process_time()
    waiting = iter(numbers)
    outcomes: list[Outcome] = []

    async def work() -> None:
        for number in waiting:
            plan = plan_of(seed, number, only)
            try:
                outcome = await asyncio.wait_for(_hold(plan), 300)
            except Exception as error:
                import traceback

                outcome = Outcome(plan, [f"{type(error).__name__}: {error}"])
                if len(numbers) == 1:
                    traceback.print_exc()
            outcomes.append(outcome)
            for problem in outcome.disagreements:
                print(f"{seed}:{number} {plan.kind} {problem}", flush=True)

    await asyncio.gather(*(work() for _ in range(at_once)))
    seconds = time.monotonic() - began
    kinds = Counter(outcome.plan.kind for outcome in outcomes)
    counts: Counter[str] = Counter()
    ratios: list[float] = []
    for outcome in outcomes:
        counts += outcome.counts
        ratios += outcome.ratios
    bad = sum(bool(outcome.disagreements) for outcome in outcomes)
    print(f"{len(outcomes)} exchanges in {seconds:.0f} s ({len(outcomes) / seconds:.1f}/s; "
          f"{(time.process_time() - cpu):.1f} s of CPU); {dict(kinds)}; {dict(counts)}")
    if ratios:
        ratios.sort()
        print(f"charge / bill of calls that were left: {ratios[0]:.2f} to {ratios[-1]:.2f}, median {ratios[len(ratios)//2]:.2f}")
    print(f"{bad} exchanges with disagreements")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

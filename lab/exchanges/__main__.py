"""Run exchanges: python -m lab.exchanges --seed 7 [--count 10000] [--only KIND] [--number K]."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from lab.exchanges.plan import KINDS
from lab.exchanges.totals import Totals, run

__all__ = ["main"]


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

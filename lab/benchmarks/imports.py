"""What imports cost: `python -m lab.benchmarks.imports [--json FILE]`.

The CPU of a process that imports something, less that of one that does nothing, over that of one
that imports aiohttp. The processes take turns, and a ratio is taken within a round.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

from lab.benchmarks.ratios import with_spread, within_rounds

STATEMENTS = ("pass", "import aiohttp", "import swink_core", "import swink")


def _cpu(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the cost of each import, relative to the import of aiohttp, in each round."""
    found: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for _ in range(rounds):
        for statement, values in found.items():
            values.append(_cpu(statement))
    nothing = found.pop("pass")
    alone = {
        statement: [cpu - least for cpu, least in zip(values, nothing, strict=True)]
        for statement, values in found.items()
    }
    return {name: within_rounds(values, alone["import aiohttp"]) for name, values in alone.items()}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.imports", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args()
    found = measure(options.rounds)
    for statement, ratios in found.items():
        print(f"{statement:20} {with_spread(ratios)}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

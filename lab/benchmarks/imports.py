"""What imports cost: `python -m lab.benchmarks.imports [--json FILE]`.

The CPU of a process that imports something, less that of one that does nothing, over that of one
that imports aiohttp. The processes take turns, and the least of all rounds counts: whatever else
runs can only add to it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

STATEMENTS = ("pass", "import aiohttp", "import swink_core", "import swink")


def _cpu(statement: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(rounds: int) -> dict[str, float]:
    """Return the cost of each import, relative to the import of aiohttp."""
    least = dict.fromkeys(STATEMENTS, float("inf"))
    for _ in range(rounds):
        for statement in STATEMENTS:
            least[statement] = min(least[statement], _cpu(statement))
    nothing = least.pop("pass")
    whole = least["import aiohttp"] - nothing
    return {statement: (cpu - nothing) / whole for statement, cpu in least.items()}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.imports", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    options = parser.parse_args()
    found = measure(options.rounds)
    for statement, ratio in found.items():
        print(f"{statement:20}{ratio:8.2f}x")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

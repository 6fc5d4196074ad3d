"""Print the processor time of a call for several checkouts, which take turns.

    python -m lab.findings.duel CHECKOUT [CHECKOUT …]

Each checkout has a process; a ratio is taken within a round, so that other work on the machine
changes little. Without arguments this checkout is compared with itself, which shows the noise.
Every change for speed needs it.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import IO

from lab.findings.call_cost import MODEL, conversation, milliseconds

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 8
TURNS = 20
READY = "ready"

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import lab.findings
del sys.path[0]
from lab.findings.duel import serve
serve()
"""
"""Takes this program from the first folder, and swink from the checkout."""


def serve() -> None:
    """Measure once for each line of stdin, and print milliseconds."""
    messages = conversation(TURNS)
    asyncio.run(milliseconds(MODEL, messages))
    print(READY, flush=True)
    for _ in sys.stdin:
        print(asyncio.run(milliseconds(MODEL, messages)), flush=True)


def started(checkout: Path) -> subprocess.Popen[str]:
    """Start the process of a checkout."""
    sources = [*checkout.glob("plugins/*/src"), *checkout.glob("contrib/*/src")]
    path = os.pathsep.join(map(str, [checkout, *sources]))
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(ROOT)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"},
    )
    if _pipe(process.stdout).readline().strip() != READY:
        sys.exit(f"{checkout} did not start")
    return process


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


def measured(process: subprocess.Popen[str]) -> float:
    """Let a process measure once."""
    asked = _pipe(process.stdin)
    asked.write("\n")
    asked.flush()
    return float(_pipe(process.stdout).readline())


def main() -> None:
    """Print one line for each checkout."""
    checkouts = [Path(each).resolve() for each in sys.argv[1:]] or [ROOT, ROOT]
    processes = [started(each) for each in checkouts]
    times: list[list[float]] = [[] for _ in checkouts]
    for number in range(ROUNDS):
        for place in range(len(processes)):
            at = (place + number) % len(processes)
            times[at].append(measured(processes[at]))
    for process in processes:
        _pipe(process.stdin).close()
        process.wait()
    for checkout, own in zip(checkouts, times, strict=True):
        ratios = [mine / first for mine, first in zip(own, times[0], strict=True)]
        shown = f"{statistics.median(own):.3f} ms a call, {statistics.median(ratios):.2f} times"
        print(f"{checkout.name:20} {shown} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()

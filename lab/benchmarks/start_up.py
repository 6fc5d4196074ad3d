"""Measure the start-up cost of the command line: `python -m lab.benchmarks.start_up`.

Processes are started in turn, and the CPU time of each is compared, within a round, with that of
one that does the least. See `run` for why ratios, and rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lab.benchmarks.ratios import spread, within_rounds

SWINK = str(Path(sys.executable).with_name("swink"))


class Command(NamedTuple):
    """A command line, what it is compared with, and the ratio that it should keep within."""

    arguments: list[str]
    least: str
    limit: float = 0


COMMANDS = {
    "python -c pass": Command([sys.executable, "-c", "pass"], ""),
    'python -c "import aiohttp"': Command([sys.executable, "-c", "import aiohttp"], ""),
    "swink --version": Command([SWINK, "--version"], "python -c pass", 6),
    "swink --help": Command([SWINK, "--help"], "python -c pass"),
    "swink ask -m echo/echo hi": Command(
        [SWINK, "ask", "-m", "echo/echo", "hi"], 'python -c "import aiohttp"', 2.5
    ),
}


def cpu_seconds(arguments: Sequence[str], home: str) -> float:
    """Return the CPU time, user and system, of a process that has no settings and no input."""
    environment = {"PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8"}
    null = os.open(os.devnull, os.O_RDWR)
    streams = [(os.POSIX_SPAWN_DUP2, null, number) for number in range(3)]
    process = os.posix_spawn(arguments[0], list(arguments), environment, file_actions=streams)
    os.close(null)
    _, status, used = os.wait4(process, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{' '.join(arguments)} ended with {code}")
    return used.ru_utime + used.ru_stime


def measure(rounds: int) -> dict[str, list[float]]:
    """Return the CPU seconds of each command, one value a round."""
    spent: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as home:
        for number in range(rounds + 1):
            for name, command in COMMANDS.items():
                seconds = cpu_seconds(command.arguments, home)
                if number:  # the first round warms the disk's cache
                    spent[name].append(seconds)
    return spent


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.start_up", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="measured rounds (15)")
    parser.add_argument("--check", action="store_true", help="exit with 1 beyond a limit")
    options = parser.parse_args(argv)
    spent = measure(options.rounds)
    print(f"\nstarting the command line: CPU of a process, median of {options.rounds} rounds")
    failed = False
    for name, command in COMMANDS.items():
        line = f"  {name:28}{1000 * statistics.median(spent[name]):>8.0f} ms"
        if command.least:
            ratios = within_rounds(spent[name], spent[command.least])
            ratio = statistics.median(ratios)
            line += f"{ratio:>8.2f}x {command.least} ({spread(ratios)})"
            if command.limit:
                line += f", limit {command.limit:g}x"
                failed |= ratio > command.limit
        print(line)
    return 1 if failed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

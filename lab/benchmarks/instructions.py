"""Count the processor's instructions: `python -m lab.benchmarks.instructions [--check | --write]`.

Time on a shared machine varies by half; the number of instructions of a fixed replay does not vary.
valgrind's cachegrind counts them. The costs of a delta, a request and the import are differences of
two runs, so that starting Python cancels out.

`--check` compares with the baseline of this environment (Python and the libraries that do the
work), in `instructions.json` beside this file, and exits with 1 if anything takes more than
TOLERANCE more, or if valgrind is there and a slowdown planted on purpose is not noticed; an
environment without a baseline is only told. `--write` makes the baseline anew.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks.replay import CONVERSATIONS, DELTAS, GATEWAY_STAGES, OBSERVERS, STAGES

BASELINE = Path(__file__).with_name("instructions.json")

TOLERANCE = 0.03

PACKAGES = ("aiohttp", "attrs", "msgspec", "pluggy")

CACHEGRIND = (
    "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
)  # fmt: skip


@dataclass(frozen=True)
class Measure:
    """Two runs of Python, the longer of which does `units` more of what is counted."""

    name: str
    shorter: tuple[str, ...]
    longer: tuple[str, ...]
    units: int

    def planted(self, plant: str) -> Measure:
        """Return the measure with a slowdown in both runs, under the slowdown's name."""
        return Measure(plant, (*self.shorter, plant), (*self.longer, plant), self.units)


def _replays(kind: str, few: int, many: int, per: int) -> Measure:
    run = ("-m", "lab.benchmarks.replay", kind)
    return Measure(kind, (*run, str(few)), (*run, str(many)), (many - few) * per)


CALLS = {1: 20, 31: 6, 301: 2}
"""How many calls are counted, by the messages of the conversation."""


def _conversations() -> Iterator[Measure]:
    """Return a measure for each conversation; those of a protocol share the shorter run."""
    shorter: dict[str, tuple[str, ...]] = {}
    for name, (protocol, size, _) in CONVERSATIONS.items():
        run = ("-m", "lab.benchmarks.replay", name)
        first = shorter.setdefault(protocol, (*run, "0"))
        yield Measure(name, first, (*run, str(CALLS[size])), CALLS[size])


MEASURES = (
    _replays("burst", 1, 3, DELTAS["burst"]),
    _replays("paced", 1, 6, DELTAS["paced"]),
    _replays("request", 20, 60, 1),
    _replays("gateway", 20, 60, 1),
    *(_replays(observer, 20, 60, 1) for observer in (*OBSERVERS, "sdk")),
    Measure("import", ("-c", "pass"), ("-c", "import swink_core"), 1),
    *_conversations(),
)

PLANTS = (
    *(("burst" if stage in ("decoder", "writer") else "request", stage) for stage in STAGES),
    *(("gateway", stage) for stage in GATEWAY_STAGES),
)
"""The slowdowns that must be detected: about a twentieth in each stage, by measure."""


def environment() -> str:
    """Name what the count depends on besides our own code."""
    versions = (f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return ", ".join((python, platform.machine(), *versions))


def _fixed() -> dict[str, str]:
    """Return an environment in which hashes are the same and compiled modules are kept."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONHASHSEED": "0"}


def count(arguments: tuple[str, ...]) -> int:
    """Return the instructions of one run of Python. Raises CalledProcessError."""
    run = [*CACHEGRIND, sys.executable, *arguments]
    said = subprocess.run(run, env=_fixed(), capture_output=True, text=True, check=True).stderr
    line = next(line for line in said.splitlines() if "I   refs" in line or "I refs" in line)
    return int(line.rpartition(":")[2].replace(",", ""))


def compile_modules() -> None:
    """Run each measure once without counting, so that no counted run compiles a module."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(_run, dict.fromkeys(measure.longer for measure in MEASURES)))


def _run(arguments: tuple[str, ...]) -> None:
    subprocess.run([sys.executable, *arguments], env=_fixed(), check=True)


def measured(measures: tuple[Measure, ...] = MEASURES) -> dict[str, int]:
    """Return the instructions of a unit of each measure, by its name."""
    runs = {run: 0 for measure in measures for run in (measure.shorter, measure.longer)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counts = dict(zip(runs, pool.map(count, runs), strict=True))
    return {m.name: (counts[m.longer] - counts[m.shorter]) // m.units for m in measures}


def slower(now: dict[str, int], before: dict[str, int]) -> list[str]:
    """Describe each measure that exceeds the tolerance, with the old and new value."""
    return [
        f"{name}: {now[name]:,} instructions, {now[name] / was - 1:+.1%} against {was:,}"
        for name, was in before.items()
        if now[name] > was * (1 + TOLERANCE)
    ]


def _unnoticed(now: dict[str, int]) -> list[str]:
    by_name = {measure.name: measure for measure in MEASURES}
    planted = measured(tuple(by_name[name].planted(plant) for name, plant in PLANTS))
    return [
        f"a slowdown planted in the {plant} is not noticed"
        for name, plant in PLANTS
        if not slower({name: planted[plant]}, {name: now[name]})
    ]


def main() -> int:
    """Count, print, and compare or write; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m lab.benchmarks.instructions", description=__doc__
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if anything got slower")
    parser.add_argument("--write", action="store_true", help="make the baseline anew")
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not here, so no instructions are counted (apt install valgrind)")
        return 0
    compile_modules()
    here, now = environment(), measured()
    baselines = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    before = baselines.get(here, {})
    print(f"instructions, {here}")
    for name, value in now.items():
        change = f"{value / before[name] - 1:+8.2%}" if name in before else ""
        print(f"  {name:18}{value:>14,}{change}")
    if options.write:
        BASELINE.write_text(json.dumps({**baselines, here: now}, indent=2, sort_keys=True) + "\n")
    if not options.check:
        return 0
    if not before:
        print("no baseline for this environment: --write makes one")
        return 0
    failures = [*slower(now, before), *_unnoticed(now)]
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())

"""Count the processor's instructions: `python -m lab.benchmarks.instructions [--check | --write]`.

Time on a shared machine varies by half; the number of instructions of a fixed replay does not vary.
valgrind's cachegrind counts them. The costs of a delta and of a request are differences of two
runs, which are forks of one process (`lab.benchmarks.replay`): the count of a fork begins with that
of the process, so the start is counted once and cancels out. The cost of the import is the
difference of two processes.

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
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.benchmarks.replay import CONVERSATIONS, DELTAS, GATEWAY_STAGES, OBSERVERS, STAGES

BASELINE = Path(__file__).with_name("instructions.json")

TOLERANCE = 0.03

PACKAGES = ("aiohttp", "attrs", "msgspec", "pluggy")

CACHEGRIND = (
    "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
)  # fmt: skip

REPLAY = (sys.executable, "-m", "lab.benchmarks.replay")


@dataclass(frozen=True)
class Measure:
    """Two runs of the replay, the longer of which does `units` more of what is counted."""

    name: str
    shorter: str
    longer: str
    units: int

    def planted(self, plant: str) -> Measure:
        """Return the measure with a slowdown in both runs."""
        name = _planted(self.name, plant)
        return Measure(name, f"{self.shorter} {plant}", f"{self.longer} {plant}", self.units)


def _planted(name: str, plant: str) -> str:
    return f"{name} with a slower {plant}"


def _replays(kind: str, few: int, many: int, per: int) -> Measure:
    return Measure(kind, f"{kind} {few}", f"{kind} {many}", (many - few) * per)


CALLS = {1: 20, 31: 6, 301: 2}
"""How many calls are counted, by the messages of the conversation."""


def _conversations() -> Iterator[Measure]:
    """Return a measure for each conversation; those of a protocol share the shorter run."""
    shorter: dict[str, str] = {}
    for name, (protocol, size, _) in CONVERSATIONS.items():
        first = shorter.setdefault(protocol, f"{name} 0")
        yield Measure(name, first, f"{name} {CALLS[size]}", CALLS[size])


MEASURES = (
    _replays("burst", 1, 3, DELTAS["burst"]),
    _replays("paced", 1, 6, DELTAS["paced"]),
    _replays("request", 20, 60, 1),
    _replays("gateway", 20, 60, 1),
    *(_replays(observer, 20, 60, 1) for observer in (*OBSERVERS, "sdk")),
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
    return _counted(said)


def _count_forks(runs: Iterable[str]) -> dict[str, int]:
    """Return the instructions of each run, with those of the process that forked it.

    Forking takes about 25,000 instructions, which count in the runs after it. Raises
    CalledProcessError.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = [*CACHEGRIND, f"--log-file={folder}/%p", *REPLAY]
        said = subprocess.run(
            program,
            input="\n".join(runs),
            env=_fixed(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        forks = (line.split(maxsplit=1) for line in said.splitlines())
        return {run: _counted(Path(folder, process).read_text()) for process, run in forks}


def _counted(said: str) -> int:
    """Return the instructions that cachegrind reports."""
    line = next(line for line in said.splitlines() if "I   refs" in line or "I refs" in line)
    return int(line.rpartition(":")[2].replace(",", ""))


def compile_modules() -> None:
    """Start the replay without counting, so that no counted run compiles a module."""
    subprocess.run(REPLAY, env=_fixed(), stdin=subprocess.DEVNULL, check=True)


def measured(measures: Sequence[Measure]) -> dict[str, int]:
    """Return the instructions of a unit of each measure, by its name, and those of the import."""
    counts = _count_forks(dict.fromkeys(run for m in measures for run in (m.shorter, m.longer)))
    return {
        "import": count(("-c", "import swink_core")) - count(("-c", "pass")),
        **{m.name: (counts[m.longer] - counts[m.shorter]) // m.units for m in measures},
    }


def slower(now: dict[str, int], before: dict[str, int]) -> list[str]:
    """Describe each measure that exceeds the tolerance, with the old and new value."""
    return [
        f"{name}: {now[name]:,} instructions, {now[name] / was - 1:+.1%} against {was:,}"
        for name, was in before.items()
        if now[name] > was * (1 + TOLERANCE)
    ]


def _unnoticed(counted: dict[str, int]) -> list[str]:
    """Describe each planted slowdown that does not exceed the tolerance."""
    return [
        f"a slowdown planted in the {plant} is not noticed"
        for name, plant in PLANTS
        if not slower({name: counted[_planted(name, plant)]}, {name: counted[name]})
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
    here = environment()
    baselines = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
    before = baselines.get(here, {})
    by_name = {measure.name: measure for measure in MEASURES}
    slowed = [by_name[name].planted(plant) for name, plant in PLANTS if options.check and before]
    counted = measured((*MEASURES, *slowed))
    now = {name: counted[name] for name in ("import", *by_name)}
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
    failures = [*slower(now, before), *_unnoticed(counted)]
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())

"""Count how many mutants of the core its tests find: `make core-mutants`.

Mutants are created by rule (`core_mutations.py`), and `--count` of them are drawn with a seed.
Once, all tests of the core run with coverage, which records the lines that each test executes; then
each mutant is checked by the tests that execute its line, the fastest first, until one fails.
Results are stored in `build/core-mutants`, so that a run can be interrupted and resumed. At the
end, the tests that failed run once without a mutant, and must pass.

Equivalent mutants are listed in `core.toml`, with the reason. The exit code is 1 if more
than `MOST_SURVIVORS` others survive.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from bisect import bisect
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate, count
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

import msgspec
from coverage import CoverageData

from lab.mutants.core_mutations import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "swink_core"
KEPT = ROOT / "build/core-mutants"
MAP = KEPT / "tests.json"
RESULTS = KEPT / "results.jsonl"
EQUIVALENT = ROOT / "lab/mutants/core.toml"

MOST_SURVIVORS = 10
"""Of 200."""

PATIENCE = 60.0
"""Seconds that the tests of a mutant, which may hang, have beyond five times their own."""

MEMORY = 3 << 30
"""Bytes that a mutant may address, which may take ever more."""


class Tests(msgspec.Struct):
    """A test run without mutants: by file and line of the core, the numbers of the tests that
    execute it, -1 for lines that no test executes itself, such as an import; and each test's name
    and seconds.
    """

    names: list[str]
    seconds: list[float]
    lines: dict[str, dict[int, list[int]]]

    def of(self, mutant: Mutant, longest: float) -> tuple[list[str], float]:
        """Return the tests that may detect a mutant, the module's own and the fastest first, within
        `longest` seconds together; and their duration.
        """
        lines = self.lines.get(mutant.file, {})
        near = max((line for line in lines if line <= mutant.line), default=0)
        found = set(lines.get(near, [-1]))
        mirror = f"tests/{mutant.file.rpartition('/')[0]}/test_{Path(mutant.file).stem}"
        own = {at for at, name in enumerate(self.names) if name.startswith(mirror)}
        asked = [found & own, found]
        if -1 in found:
            module = {test for tests in lines.values() for test in tests}
            asked += [own, module, set(range(len(self.names)))]
        ordered = list(dict.fromkeys(test for each in asked for test in self._quickest(each)))
        spent = [*accumulate(self.seconds[test] for test in ordered)]
        enough = max(bisect(spent, longest), 1)
        return [self.names[test] for test in ordered[:enough]], spent[enough - 1]

    def _quickest(self, tests: Iterable[int]) -> list[int]:
        return sorted((test for test in tests if test >= 0), key=lambda test: self.seconds[test])


class Result(msgspec.Struct):
    """The result of a mutant: `by` is the test that failed, `None` if it survived `tests`."""

    name: str
    line: int
    rule: str
    tests: int
    by: str | None


@dataclass
class Tree:
    """A checkout whose core may be changed; all else is that of this one."""

    folder: Path
    _times: Iterator[int] = field(default_factory=lambda: count(1_000_000_000, 10))

    def __post_init__(self) -> None:
        for path in ROOT.iterdir():
            if path.name in ("swink_core", "tests"):
                shutil.copytree(path, self.folder / path.name)
            elif path.name not in ("build", "dist", ".git"):
                (self.folder / path.name).symlink_to(path)
        where = self._run(
            [sys.executable, "-c", "import swink_core; print(swink_core.__file__)"], PATIENCE
        )
        assert Path(where[1].strip()).is_relative_to(self.folder), where

    def put(self, file: str, source: str) -> None:
        """Write a module, at a time that no compiled one of it has."""
        path = self.folder / "swink_core" / file
        path.write_text(source, "utf-8")
        time = next(self._times)
        os.utime(path, (time, time))

    def failure(self, tests: list[str], seconds: float) -> str | None:
        """Return the first test that fails, or what else went wrong; `None` if all pass."""
        listed = self.folder / "listed.txt"
        listed.write_text("".join(f"{test}\n" for test in tests), "utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        command += ["-p", "no:xdist", "-p", "no:cov"]
        code, said = self._run([*command, f"@{listed}"], seconds)
        if code in (4, 5):  # a table has other rows now: their files say whether that is noticed
            files = sorted({test.partition("::")[0] for test in tests})
            code, said = self._run([*command, *files], seconds)
        if code == 0:
            return None
        failed = re.search(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", said, re.MULTILINE)
        return failed[1] if failed else f"exit code {code}: {said.strip().rpartition(chr(10))[2]}"

    def _run(self, command: list[str], seconds: float) -> tuple[int, str]:
        """Return the exit code (-1 for a timeout) and all output."""
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        ) as process:
            try:
                said = process.communicate(timeout=seconds)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return -1, "it did not end in time"
        return process.returncode, said


def learn(folders: list[str], processes: int) -> Tests:
    """Run all tests of the core, and return which of them execute which line."""
    data = KEPT / "coverage"
    command = [sys.executable, "-m", "pytest", "-n", str(processes), "--durations=0"]
    command += [
        "--durations-min=0",
        "-p",
        "no:cacheprovider",
        "--cov",
        "--cov-report=",
        "--cov-context=test",
        "--cov-fail-under=0",  # the other tests cover the core too
    ]
    done = subprocess.run(
        [*command, *folders],
        cwd=ROOT,
        env={**os.environ, "COVERAGE_FILE": str(data)},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{done.stdout[-3000:]}\nthe tests fail without a mutant")
    return tests_of(data, done.stdout)


def tests_of(data: Path, said: str) -> Tests:
    """Return the tests in coverage's data and pytest's `--durations`."""
    seconds: Counter[str] = Counter()
    for took, name in re.findall(r"^([\d.]+)s (?:call|setup|teardown) +(tests/.+)$", said, re.M):
        seconds[name] += float(took)  # type: ignore[assignment]
    covered = CoverageData(str(data))
    covered.read()
    contexts = {context.rpartition("|")[0] for context in covered.measured_contexts()}
    names = sorted({*contexts, *seconds} - {""})  # some only read what modules hold
    numbers = {name: number for number, name in enumerate(names)}
    lines = {
        Path(file).relative_to(CORE).as_posix(): {
            line: sorted({numbers.get(each.rpartition("|")[0], -1) for each in by})
            for line, by in covered.contexts_by_lineno(file).items()
        }
        for file in sorted(covered.measured_files())
    }
    return Tests(names, [seconds[name] or 0.01 for name in names], lines)


def drawn(number: int, seed: int) -> list[Mutant]:
    """Return some of all mutants of the core: for a seed the same, whatever else changes."""
    made = [
        mutant
        for path in sorted(CORE.rglob("*.py"))
        for mutant in mutants_of(path.relative_to(CORE).as_posix(), path.read_text("utf-8"))
    ]
    made.sort(key=lambda each: sha256(f"{seed} {each.name}".encode()).digest())
    return made[:number]


def tried(mutants: list[Mutant], tests: Tests, processes: int, longest: float) -> None:
    """Try mutants, and add what became of each to the results."""
    trees: SimpleQueue[Tree] = SimpleQueue()

    def attempt(mutant: Mutant) -> Result:
        chosen, seconds = tests.of(mutant, longest)
        tree = trees.get()
        try:
            tree.put(mutant.file, mutant.source)
            by = tree.failure(chosen, PATIENCE + 5 * seconds)
            tree.put(mutant.file, (CORE / mutant.file).read_text("utf-8"))
        finally:
            trees.put(tree)
        return Result(mutant.name, mutant.line, mutant.rule, len(chosen), by)

    with TemporaryDirectory(prefix="swink-mutants-") as scratch, RESULTS.open("ab") as file:
        for number in range(processes):
            (Path(scratch) / str(number)).mkdir()
            trees.put(Tree(Path(scratch) / str(number)))
        with ThreadPoolExecutor(processes) as pool:
            for result in pool.map(attempt, mutants):
                print(f"{result.by or 'SURVIVES'}: {result.name}", flush=True)
                file.write(msgspec.json.encode(result) + b"\n")
                file.flush()


def unreliable(tests: Iterable[str]) -> set[str]:
    """Return the tests that fail without a mutant, too."""
    with TemporaryDirectory(prefix="swink-mutants-") as scratch:
        tree, failing = Tree(Path(scratch)), set()
        left = sorted(tests)
        while left and (failed := tree.failure(left, PATIENCE * 10)):
            failing.add(failed)
            left = [test for test in left if test != failed] if failed in left else []
    return failing


def main() -> int:
    """Try mutants of the core; return 1 where too many survive."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("tests", nargs="+", help="the core's own: folders and files below tests/")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--longest", type=float, default=300.0, help="seconds of tests a mutant")
    parser.add_argument("--again", action="store_true", help="try those that survived once more")
    options = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    mutants = drawn(options.count, options.seed)
    known = results()
    if options.again:
        known = {name: result for name, result in known.items() if result.by}
    if not MAP.exists():
        MAP.write_bytes(msgspec.json.encode(learn(options.tests, options.processes)))
    tests = msgspec.json.decode(MAP.read_bytes(), type=Tests)
    left = [mutant for mutant in mutants if mutant.name not in known]
    tried(left, tests, options.processes, options.longest)
    known = results()
    killers = {by for mutant in mutants if (by := known[mutant.name].by)}
    doubted = unreliable(killer for killer in killers if killer.startswith("tests/"))
    return told(mutants, known, doubted, options.count)


def results() -> dict[str, Result]:
    """Return the latest result of each mutant, by name."""
    lines = RESULTS.read_bytes().splitlines() if RESULTS.exists() else []
    read = (msgspec.json.decode(line, type=Result) for line in lines)
    return {result.name: result for result in read}


def told(mutants: list[Mutant], known: dict[str, Result], doubted: set[str], number: int) -> int:
    """Print what was found; return 1 where too many survive, or a test fails by itself."""
    equivalent = msgspec.toml.decode(EQUIVALENT.read_bytes(), type=dict[str, str])
    surviving = [known[mutant.name] for mutant in mutants if known[mutant.name].by is None]
    for result in surviving:
        why = equivalent.get(result.name)
        print(f"survives {result.tests} tests: {result.name}{f'  ({why})' if why else ''}")
    for test in sorted(doubted):
        print(f"fails without a mutant too: {test}")
    noticed = sum(result.name not in equivalent for result in surviving)
    print(
        f"{len(mutants)} mutants, of which {len(surviving)} survive, "
        f"{len(surviving) - noticed} that nobody could notice"
    )
    return int(noticed * 200 > MOST_SURVIVORS * number or bool(doubted))


if __name__ == "__main__":
    os.nice(10)
    sys.exit(main())

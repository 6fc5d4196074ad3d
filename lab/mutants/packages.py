"""Try sixty faults of the three example packages with the kit, and with langchain-tests.

    python -m lab.mutants.packages FILE [PYTHON]

`FILE` holds the faults: `three_packages.toml`, or `blind.toml` and `blind_second.toml`, whose
authors did not know the kit. `PYTHON` is that of an environment with langchain-tests; without it,
only the kit is run. Prints the table of the page, and fails where the kit finds fewer than 54 (or
than `least` of the file), misses a fault about credentials (more than `missed_credentials` of the
file), or takes more than five seconds of the processor for a package.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import msgspec

from lab.mutants.providers import ROOT, subject_of
from swink_testing.conformance import PROVIDER_CHECKS, consistency_line, run_checks
from swink_testing.mutants import MUTANT_CHECKS, edited, killed_by

PACKAGES = {
    "swink_provider_kiln": ("kiln", "Kiln", ROOT / "examples/job_provider/src"),
    "swink_provider_tarn": ("tarn", "Tarn", ROOT / "examples/token_provider/src"),
    "swink_provider_loom": ("loom", "Loom", ROOT / "examples/result_provider/src"),
}

LEAST = 54
"""Faults that the kit has to find."""

MOST_SECONDS = 5.0


class Row(msgspec.Struct):
    """A fault: `was` stands in the module once, and `now` replaces it.

    `says` tells what a user sees. `file` is a file of the package that is changed instead of the
    module, such as `models.toml`.
    """

    module: str
    about: str
    name: str
    was: str
    now: str
    says: str = ""
    file: str = ""

    @property
    def edit(self) -> dict[str, str]:
        """The arguments of `edited`."""
        return {"name": self.name, "module": self.module, "was": self.was, "now": self.now}


class Rows(msgspec.Struct):
    """A file of faults, how many of them are found, and how many about credentials are not."""

    mutants: list[Row]
    least: int = LEAST
    missed_credentials: int = 0

    def of(self, module: str) -> list[Row]:
        """Return the faults of a package."""
        return [row for row in self.mutants if row.module == module]


@contextmanager
def changed_file(row: Row) -> Iterator[None]:
    """Let imports of the package find a copy in which a file is changed."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / row.module
        shutil.copytree(PACKAGES[row.module][2] / row.module, copy)
        text = (copy / row.file).read_text("utf-8")
        if (times := text.count(row.was)) != 1:
            raise SystemExit(f"{row.name}: {row.file} has {row.was!r} {times} times, and not once")
        (copy / row.file).write_text(text.replace(row.was, row.now), "utf-8")
        before = sys.modules.pop(row.module, None)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path.remove(folder)
            sys.modules.pop(row.module, None)
            if before is not None:
                sys.modules[row.module] = before


def installed(row: Row) -> AbstractContextManager[None]:
    """Let imports of the package find the fault."""
    return changed_file(row) if row.file else edited(**row.edit).installed()


def finder_of(row: Row) -> str | None:
    """Return the check that finds a fault; all checks look for one in a file of the package."""
    name, cls, _ = PACKAGES[row.module]
    checks = PROVIDER_CHECKS if row.file else MUTANT_CHECKS
    with installed(row), redirect_stdout(StringIO()):
        return killed_by(subject_of(name, f"{row.module}:{cls}"), checks)


def found_by_kit(module: str, rows: Sequence[Row]) -> list[str | None]:
    """Return the check that finds each fault. Raises SystemExit for a package that is not sound."""
    name, cls, _ = PACKAGES[module]
    begun = time.process_time()
    results = run_checks(PROVIDER_CHECKS, subject_of(name, f"{module}:{cls}"))
    seconds = time.process_time() - begun
    print(f"{name}: {consistency_line(results)}; {seconds:.1f} s of the processor")
    if seconds > MOST_SECONDS or any(not result.holds for result in results):
        raise SystemExit(f"{name} is not consistent, or takes too long")
    found: list[str | None] = []
    for row in rows:
        found.append(finder_of(row))
        if found[-1] is None:
            print(f"survives: {name}: {row.name} ({row.about}): {row.says}")
    return found


def found_by_langchain(python: str, module: str, rows: Sequence[Row]) -> list[str | None]:
    """Return the test of langchain-tests that finds each fault."""
    sources = [
        "",
        *(f"contrib/swink-{each}/src" for each in ("testing", "recorder", "judge", "cli")),
    ]
    path = [str(ROOT / source) for source in sources]
    path += [str(source) for _, _, source in PACKAGES.values()]
    lines = "\n".join(["null", *(msgspec.json.encode(row).decode() for row in rows)])
    done = subprocess.run(
        [python, str(Path(__file__).with_name("langchain_mutants.py"))],
        input=lines,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(path),
             "MODEL": PACKAGES[module][0]},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )  # fmt: skip
    sound, *found = map(json.loads, done.stdout.splitlines())
    if sound is not None:
        raise SystemExit(f"langchain-tests fail without a mutant: {sound}")
    return found


def main() -> int:
    """Try all faults, and print the table."""
    sys.path[:0] = [str(source) for _, _, source in PACKAGES.values()]
    file = msgspec.toml.decode(Path(sys.argv[1]).read_bytes(), type=Rows)
    python = sys.argv[2] if len(sys.argv) > 2 else None
    made: Counter[str] = Counter()
    by_kit: Counter[str] = Counter()
    by_langchain: Counter[str] = Counter()
    for module in PACKAGES:
        rows = file.of(module)
        for row, finder in zip(rows, found_by_kit(module, rows), strict=True):
            made[row.about] += 1
            by_kit[row.about] += finder is not None
        if python is not None:
            for row, test in zip(rows, found_by_langchain(python, module, rows), strict=True):
                by_langchain[row.about] += test is not None
    print("\n| faults about | made | the kit | langchain-tests |\n|---|---|---|---|")
    for about in [*sorted(made), ""]:
        counts = [made, by_kit, by_langchain]
        cells = [each[about] if about else each.total() for each in counts]
        last = cells[2] if python is not None else "-"
        print(f"| {about or 'all'} | {cells[0]} | {cells[1]} | {last} |")
    missed = made["credentials"] - by_kit["credentials"]
    return int(by_kit.total() < file.least or missed > file.missed_credentials)


if __name__ == "__main__":
    sys.exit(main())

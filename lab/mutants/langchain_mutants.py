"""Run langchain-tests on the mutants of one example package: `langchain_mutants.py < MUTANTS`.

Runs in an environment that has langchain-tests, with `MODEL` set. Reads a mutant a line as JSON,
and answers each with the name of the first test that fails, or with null. The mutant null is the
unchanged package.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.mutants.packages import Row, installed

TESTS = Path(__file__).with_name("langchain_model.py")

ARGUMENTS = (
    *("-q", "-x", "-p", "no:cacheprovider", "--noconftest", "--benchmark-disable"),
    *("-c", os.devnull, "--rootdir", str(TESTS.parent), "-W", "ignore"),
    *("-o", "asyncio_mode=auto", str(TESTS)),
)


class _Failures:
    """Notes the tests that fail."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note a failed test."""
        if report.failed:
            self.names.append(report.nodeid.rpartition("::")[2])


def first_failure() -> str | None:
    """Run the tests, and return the first that fails."""
    failures = _Failures()
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
        ended = pytest.main([*ARGUMENTS], plugins=[failures])
    if failures.names:
        return failures.names[0]
    return None if ended == pytest.ExitCode.OK else f"pytest ends with {ended}"


def main() -> None:
    """Answer each line."""
    for line in sys.stdin:
        row = msgspec.json.decode(line, type=Row | None)
        with nullcontext() if row is None else installed(row):
            print(json.dumps(first_failure()), flush=True)


if __name__ == "__main__":
    main()

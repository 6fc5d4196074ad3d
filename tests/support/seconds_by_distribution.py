"""A pytest plugin that prints the seconds which the tests of each distribution take.

It adds up setup, call and teardown of every test. With xdist, the workers' reports reach the
process that prints; seconds of processes that run at the same time count in full.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent

CORE = "swink-core"
REPOSITORY = "the repository"
"""The name for tests that belong to no distribution."""


def distribution_of(nodeid: str, core_tests: tuple[str, ...]) -> str:
    """Return the name of the distribution that a test belongs to."""
    folder, _, rest = nodeid.partition("/")
    if folder in ("contrib", "plugins"):
        return rest.partition("/")[0]
    return CORE if nodeid.startswith(core_tests) else REPOSITORY


def _core_tests() -> tuple[str, ...]:
    """Return the folders and the beginnings of file names of the tests in the core's sdist."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    shipped = pyproject["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    return tuple(path.removeprefix("/") for path in shipped if path.startswith("/tests/"))


class Seconds:
    """Adds up durations while tests run, and prints the sums after the last one."""

    def __init__(self) -> None:
        self._core_tests = _core_tests()
        self._sums: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the duration of one phase of a test."""
        self._sums[distribution_of(report.nodeid, self._core_tests)] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the sums, the largest first."""
        if not self._sums:
            return
        terminalreporter.section("seconds of tests")
        for name, seconds in sorted(self._sums.items(), key=lambda row: row[1], reverse=True):
            terminalreporter.line(f"{seconds:8.1f}  {name}")
        terminalreporter.line(f"{sum(self._sums.values()):8.1f}  in all")


def pytest_configure(config: pytest.Config) -> None:
    """Register one sum for a run."""
    config.pluginmanager.register(Seconds())

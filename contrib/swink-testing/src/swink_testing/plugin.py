"""Fixtures for tests of plugins, and the level that the conformance kit saw providers reach.

pytest finds this module by itself where swink-testing is installed. Everything else is imported
when a test asks for it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from swink_testing.chaos import ChaosServer


@pytest.fixture
def chaos() -> Iterator[ChaosServer]:
    """Run a hostile provider on loopback, in a thread; see `swink_testing.chaos`."""
    from swink_testing.chaos import ChaosServer

    with ChaosServer() as server:
        yield server


@pytest.fixture
def swink_environment(tmp_path: Path) -> dict[str, str]:
    """Return the variables with which `swink` runs a command."""
    from swink_testing.command_line import clean_environment

    return clean_environment(tmp_path)


@pytest.fixture
def swink(
    swink_environment: dict[str, str],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command line of `swink`, which needs swink-cli.

    `stdin` is what is piped in, further keywords are environment variables.
    """
    from swink_testing.command_line import run_swink

    def run(
        *arguments: str, stdin: str | bytes = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return run_swink(*arguments, environment={**swink_environment, **variables}, stdin=stdin)

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the level that each subject of a conformance suite reached."""
    told = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, value in report.user_properties
        if name == "swink_conformance"
    ]
    if told:
        from swink_testing.conformance.suite import summary

        terminalreporter.section("conformance")
        for line in summary(told):
            terminalreporter.line(line)

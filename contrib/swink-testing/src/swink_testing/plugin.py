"""Fixtures for the tests of providers, and the level that the conformance kit saw them reach.

pytest finds this module by itself where swink-core is installed.

Everything else is imported when a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
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

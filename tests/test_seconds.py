"""The seconds of each distribution's tests, printed after a run."""

from __future__ import annotations

import pytest
from seconds_by_distribution import Seconds

LOCATION = ("", 0, "")


class Printed:
    """Collects the lines that the plugin prints."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        """Ignore the title."""

    def line(self, text: str) -> None:
        """Keep a line, as words."""
        self.lines.append(" ".join(text.split()))


def test_phases_of_tests_add_up_by_distribution_and_the_largest_comes_first() -> None:
    seconds = Seconds()
    for nodeid, duration in [
        ("contrib/swink-cache/tests/test_a.py::test_b", 0.25),
        ("contrib/swink-cache/tests/test_a.py::test_b", 0.5),
        ("tests/streaming/test_a.py::test_b[plugins/x]", 1.5),
        ("tests/test_client.py::test_b", 1.5),
        ("tests/test_docs.py::test_b", 0.5),
        ("plugins/swink-provider-echo/tests/test_a.py::test_b", 2.0),
    ]:
        report = pytest.TestReport(nodeid, LOCATION, {}, "passed", None, "call", duration=duration)
        seconds.pytest_runtest_logreport(report)
    printed = Printed()
    seconds.pytest_terminal_summary(printed)  # type: ignore[arg-type]  # a stand-in
    assert printed.lines == [
        "3.0 swink-core",
        "2.0 swink-provider-echo",
        "0.8 swink-cache",
        "0.5 the repository",
        "6.2 in all",
    ]

"""The fixture `small_json`, the marker `heavy`, and the number of tests without recorded cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from swink_test_helpers.small_json import SmallJSON

pytest.register_assert_rewrite("swink_test_helpers.fault_matrix")

NO_CASES = "got empty parameter set"
"""How pytest says that a parametrised test has nothing to run with."""


HEAVY = "heavy: `make test` leaves this test out to save time, and `make heavy` runs it"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", HEAVY)


@pytest.fixture
def small_json() -> Iterator[SmallJSON]:
    """Answer small JSON requests that go through aiohttp; see `swink_test_helpers.small_json`."""
    from swink_test_helpers.small_json import SmallJSON

    service = SmallJSON()
    with service:
        yield service


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print one line if tests were skipped because the corpus is absent."""
    skipped = terminalreporter.stats.get("skipped", ())
    if without := sum(NO_CASES in str(report.longrepr) for report in skipped):
        from swink_test_helpers.corpus import CORPUS_ENV, corpus_folder

        if not corpus_folder().is_dir():
            terminalreporter.section("corpus")
            where = f"there is no {corpus_folder()} ({CORPUS_ENV})"
            terminalreporter.line(f"{without} tests found no recorded cases: {where}")

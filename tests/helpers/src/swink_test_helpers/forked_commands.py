"""The fixture `swink` of swink-testing, faster: most commands run in a fork (see `fork_server`)."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

__all__ = ["swink"]


@pytest.fixture
def swink(
    swink_environment: dict[str, str],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command line of `swink`.

    `stdin` is piped in; further keywords are environment variables.
    """
    from swink_test_helpers.fork_server import run_swink

    def run(
        *arguments: str, stdin: str | bytes = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return run_swink(*arguments, environment={**swink_environment, **variables}, stdin=stdin)

    return run

"""The pytest plugin of swink-testing.

* The fixture `chaos` is a server that simulates a faulty provider; the fixture `swink` runs a
  command line in a separate process.
* A coroutine test runs in a separate event loop, unless another plugin runs it: plugins that run
  coroutines are called first, and run the tests that have their markers.
* `--hypothesis-profile=swink` draws the same examples on every run, without a deadline that a
  busy machine could miss; `swink-fuzz` draws many new examples.
* The summary shows for each tested provider or plugin whether it passed all checks, and
  how many recordings and known answers support this.

The other modules of the package are imported only when a test uses them.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import subprocess
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from swink_testing.chaos import ChaosServer

ASYNC_TEST_SECONDS = 120
"""Seconds after which a coroutine test fails as stuck. The traceback then shows where it waits."""

CANCELLED_TASK_SECONDS = 30
"""Seconds after which a task that a test left, and that was cancelled, fails the test."""

PROFILES: dict[str, dict[str, Any]] = {
    "swink": {"deadline": None, "derandomize": True},
    "swink-fuzz": {"deadline": None, "max_examples": 5_000, "print_blob": True},
}

OF_OTHERS = ("anyio", "asyncio", "trio", "twisted")
"""Pytest markers of the tests that another plugin runs."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the profiles before Hypothesis's plugin selects one."""
    profile = config.getoption("--hypothesis-profile", None)
    if profile in PROFILES:
        from hypothesis import settings

        settings.register_profile(profile, **PROFILES[profile])


@pytest.fixture
def chaos() -> Iterator[ChaosServer]:
    """Run a server that simulates a faulty provider, in a thread; see `swink_testing.chaos`."""
    from swink_testing.chaos import ChaosServer

    with ChaosServer() as server:
        yield server


@pytest.fixture
def swink_environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment variables with which `swink` runs a command."""
    from swink_testing.command_line import clean_environment

    return clean_environment(tmp_path)


@pytest.fixture
def swink(
    swink_environment: dict[str, str],
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command line of `swink`; swink-cli must be installed.

    The argument `stdin` of the function is the standard input; other keyword arguments are
    environment variables.
    """
    from swink_testing.command_line import run_swink

    def run(
        *arguments: str, stdin: str | bytes = "", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return run_swink(*arguments, environment={**swink_environment, **variables}, stdin=stdin)

    return run


def _run_to_end(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(ASYNC_TEST_SECONDS):
                await test(*args, **kwargs)

        with asyncio.Runner() as runner:
            try:
                runner.run(limited())
            finally:
                runner.run(_end_tasks())

    return run


async def _end_tasks() -> None:
    """Cancel the tasks that a test left.

    Raises AssertionError if one does not end. Without this, the end of the event loop would wait
    for it without a limit.
    """
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    if left:
        _, going = await asyncio.wait(left, timeout=CANCELLED_TASK_SECONDS)
        assert not going, f"cancelled tasks go on: {going}"


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run each coroutine test in a separate event loop."""
    if any(pyfuncitem.get_closest_marker(mark) for mark in OF_OTHERS):
        return None
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
        _run_to_end(test)(**arguments)
        return True
    # Hypothesis calls the coroutine function itself, once per example.
    given = getattr(test, "hypothesis", None)
    if given is not None and inspect.iscoroutinefunction(given.inner_test):
        given.inner_test = _run_to_end(given.inner_test)
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the results of each provider or plugin that a conformance suite has tested."""
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

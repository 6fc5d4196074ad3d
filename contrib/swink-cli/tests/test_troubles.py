"""The command line shows errors once that the library only logs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from swink_cli.troubles import MOST, Troubles
from swink_test_helpers.installed import install

OBSERVER = """
from swink_core import hookimpl

class Observer:
    @hookimpl
    def on_event(self, event):
        raise ZeroDivisionError("a word of mine")
"""
TOLD = (
    "notice: observer watch (acme-watch) raised; it is left out of this call: "
    "ZeroDivisionError: a word of mine\n"
    "Report it with the output of `swink --debug …`, or uninstall it.\n"
)


@pytest.fixture
def site(tmp_path: Path) -> dict[str, str]:
    points = {"swink.plugins": {"watch": "acme_watch:Observer"}}
    return {"PYTHONPATH": str(install(tmp_path, "acme-watch", points, {"acme_watch.py": OBSERVER}))}


# what is asked, what comes in, and what is on standard output
ASKED: list[tuple[str, list[str], str, str]] = [
    ("a question", ["ask", "-m", "echo/echo", "Hi"], "", "Hi\n"),
    ("several models", ["ask", "-m", "echo/echo", "-m", "echo/long", "Hi"], "", "## echo/echo\n"),
    ("events", ["events", "-m", "echo/echo", "Hi"], "", '{"type": "start"'),
    ("a chat of two turns", ["chat", "-m", "echo/echo"], "Hi\nHo\n", "Hi\nHo\n"),
    ("a tool loop", ["ask", "-m", "echo/tool", "-y", "--functions", "def f():\n  'F.'", "x"], "",
     "f returned: "),
]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "stdin", "out"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED]
)
def test_an_observer_that_fails_is_named_once_and_the_answer_stays(
    swink: Any, site: dict[str, str], arguments: list[str], stdin: str, out: str
) -> None:
    done = swink(*arguments, stdin=stdin, **site)
    assert (done.returncode, done.stdout[: len(out)]) == (0, out)
    assert done.stderr.count("raised") == 1
    assert TOLD in done.stderr


def test_the_log_contains_the_failure_if_enabled(swink: Any, site: dict[str, str]) -> None:
    done = swink("--debug", "ask", "-m", "echo/echo", "Hi", **site)
    assert "ERROR swink_core.streaming.observers: observer watch (acme-watch) raised" in done.stderr
    assert "notice" not in done.stderr


def test_on_a_screen_it_stands_below_the_answer(start: Any, site: dict[str, str]) -> None:
    running = start("ask", "-m", "echo/echo", "Hi there", size=(200, 24), **site)
    assert running.finish() == 0
    written = running.output.decode()
    assert written.index("Hi there") < written.index(TOLD.splitlines()[0])


def logger_of(troubles: Troubles, *others: logging.Handler) -> logging.Logger:
    """Return a logger of a package of swink with only these handlers."""
    logger = logging.getLogger("swink_troubled")
    logger.handlers, logger.propagate = [troubles, *others], False
    return logger


# what is logged, and what is said
LOGGED: list[tuple[str, tuple[Any, ...], str]] = [
    ("a sentence", ("the cache %s is full", "c.db"), "notice: the cache c.db is full\n"),
    ("a call that fails", ("call %s: %s failed: %s", "c", "m", "why"), ""),
    ("a plugin that is named anyway", ("plugin %s is left out: %s", "p", "why"), ""),
]


@pytest.mark.parametrize(
    ("logged", "said"), [row[1:] for row in LOGGED], ids=[row[0] for row in LOGGED]
)
def test_unhandled_errors_are_shown(
    capsys: pytest.CaptureFixture[str], logged: tuple[Any, ...], said: str
) -> None:
    logger = logger_of(Troubles())
    logger.warning("no error")
    logger.error(*logged)
    logger.error(*logged)
    assert capsys.readouterr().err == said


def test_error_text_that_may_contain_a_secret_is_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logger_of(Troubles())
    try:
        raise ValueError("canary-secret")
    except ValueError:
        logger.exception("plugin %s failed to close", "p")
    assert capsys.readouterr().err.startswith("notice: plugin p failed to close: ValueError\n")


def test_held_errors_are_shown_later_up_to_a_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    troubles = Troubles()
    logger = logger_of(troubles)
    with troubles.held(), troubles.held():
        for number in range(MOST + 1):
            logger.error("trouble %d", number)
        assert capsys.readouterr().err == ""
    assert capsys.readouterr().err.count("notice: ") == MOST


def test_a_logger_with_a_handler_reports_its_errors(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger_of(Troubles(), logging.StreamHandler()).error("once")
    assert capsys.readouterr().err == "once\n"

"""Mistakes in a program are answered by a sentence that says what to do, under few lines."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from program_mistakes import FIRST, FORGOTTEN_AWAIT, SECOND, UNDERSTOOD, WITHOUT_ASYNC

import swink

MOST_LINES = 12
"""Lines of swink's in the traceback of a mistake."""

MISTAKES = [*FIRST, *SECOND, *WITHOUT_ASYNC]

_OF_SWINK = re.compile(r'^  File "[^"]*/(src|site-packages|swink_core)/[^"]*", line \d+')


def lines_of_swink(written: str) -> int:
    """Count the lines that frames of swink's take in a traceback."""
    count, inside = 0, False
    for line in written.splitlines():
        if line.startswith("  File "):
            inside = _OF_SWINK.match(line) is not None
        elif not line.startswith("    "):
            inside = False
        count += inside
    return count


@pytest.fixture(autouse=True)
def _without_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.chdir(tmp_path)


def run(program: str) -> None:
    exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
@pytest.mark.parametrize(
    ("program", "answer"),
    [row[1:] for row in MISTAKES],
    ids=[row[0] for row in MISTAKES],
)
def test_a_mistake_is_answered_with_advice(program: str, answer: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011  # whichever it is: its text counts
        run(program)
    assert answer in str(caught.value)
    written = "".join(traceback.format_exception(caught.value))
    assert lines_of_swink(written) <= MOST_LINES
    assert "During handling" not in written
    del caught
    gc.collect()  # Python warns of a coroutine that was not awaited here, and in no later test


def test_thirty_mistakes_were_listed_beside_those_of_before() -> None:
    assert len(SECOND) == 30


def test_a_forgotten_await_is_named_by_python() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGOTTEN_AWAIT], capture_output=True, text=True, check=False
    )
    assert "coroutine 'Client.complete' was never awaited" in done.stderr


is_coroutine_function: Any = (
    inspect.iscoroutinefunction if sys.version_info >= (3, 12) else asyncio.iscoroutinefunction
)
"""The function that knows marked functions: the one of asyncio is deprecated by Python 3.14."""


async def test_a_call_that_is_not_awaited_shows_the_correction() -> None:
    async with swink.Client() as client:
        waiting = client.complete("echo/echo", "Hi")
        assert repr(waiting) == "<complete(…) was not awaited: write await complete(…)>"
        assert is_coroutine_function(client.complete)
        assert asyncio.iscoroutine(waiting)
        task = asyncio.create_task(waiting)
        assert "Client.complete" in repr(task)
        assert (await task).text == "Hi"


@pytest.mark.parametrize(
    ("program", "printed"), [row[1:] for row in UNDERSTOOD], ids=[row[0] for row in UNDERSTOOD]
)
def test_common_notations_of_limits_are_parsed(
    program: str, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(program)
    assert printed in capsys.readouterr().out


def test_the_log_has_the_whole_traceback(caplog: pytest.LogCaptureFixture) -> None:
    number: Any = 42
    with (
        caplog.at_level(logging.DEBUG, "swink.mistakes"),
        pytest.raises(swink.UsageError) as caught,
        swink.SyncClient() as client,
    ):
        client.complete("echo/echo", number)
    assert "in context_of" in caplog.text
    assert len(caught.traceback) <= 3

"""The fixture `cassette` in a user's suite: recorded once, replayed later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SUITE = """
import asyncio
import threading

import pytest
import swink_core as swink

client = swink.Client()  # made before any test, by a program that knows of none

WORDS = "{words}"


async def ask(words):
    async with swink.stream("echo/echo", words) as stream:
        return (await stream.result()).text


async def test_async(cassette):
    assert await ask(WORDS) == WORDS
    assert await ask(WORDS) == WORDS
    assert (await client.complete("echo/echo", "again " + WORDS)).text == "again " + WORDS


def test_sync(cassette):
    assert swink.complete_sync("echo/echo", WORDS).text == WORDS


def test_thread(cassette):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(ask(WORDS))))
    thread.start()
    thread.join()
    assert answers == [WORDS]


@pytest.mark.anyio
async def test_anyio(cassette):
    assert await ask(WORDS) == WORDS


@pytest.mark.parametrize("word", ["a/b", "ü", "1..2"])
async def test_names(cassette, word):
    assert await ask(word + WORDS) == word + WORDS


class TestGroup:
    @pytest.mark.cassette("shared/name", speed=1000)
    async def test_marked(self, cassette):
        assert await ask(WORDS) == WORDS


async def test_a_program_gets_over_it(cassette):
    try:
        await ask(WORDS)
    except swink.SwinkError:
        pass
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    (tmp_path / "conftest.py").write_text(
        'import pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return "asyncio"\n'
    )
    return tmp_path


def run(folder: Path, words: str, *arguments: str, **environment: str) -> tuple[int, str]:
    (folder / "test_suite.py").write_text(SUITE.replace("{words}", words))
    options = ("-q", "-p", "no:cacheprovider", "--strict-markers")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_suite_records_once_and_replays_until_its_program_changes(suite: Path) -> None:
    assert run(suite, "one two")[0] == 0
    written = sorted(str(p.relative_to(suite)) for p in (suite / "cassettes").rglob("*.json"))
    assert written == [
        "cassettes/test_suite/shared/name.json",
        "cassettes/test_suite/test_a_program_gets_over_it.json",
        "cassettes/test_suite/test_anyio.json",
        "cassettes/test_suite/test_async.json",
        "cassettes/test_suite/test_names[-xfc].json",
        "cassettes/test_suite/test_names[1..2].json",
        "cassettes/test_suite/test_names[a-b].json",
        "cassettes/test_suite/test_sync.json",
        "cassettes/test_suite/test_thread.json",
    ]

    code, output = run(suite, "one two", "--cassette-mode=none")
    assert (code, "9 passed" in output) == (0, True), output

    code, output = run(suite, "one three", "-k", "sync or over")
    assert code == 1
    assert 'context.messages[0].content: "one three", recorded "one two"' in output
    assert "mode `all`" in output
    assert "ERROR test_suite.py::test_a_program_gets_over_it" in output  # though the test passed


FAILED = """
import swink_core as swink

def test_it(cassette):
    swink.complete_sync("echo/fail-overloaded", "Hi", retry=False)
"""


def test_a_test_that_a_replayed_failure_fails_says_so(suite: Path) -> None:
    (suite / "test_failed.py").write_text(FAILED)
    hint = (
        f"No request was sent; this is the content of {suite}/cassettes/test_failed/test_it.json."
    )
    assert hint not in run(suite, "one", "test_failed.py")[1]
    code, output = run(suite, "one", "test_failed.py")
    assert (code, hint in output) == (1, True), output


MARKED = """
import pytest

@pytest.mark.cassette("a", "b")
def test_two(cassette): ...

@pytest.mark.cassette(pace=2)
def test_pace(cassette): ...

@pytest.mark.cassette("../a")
def test_outside(cassette): ...

@pytest.mark.cassette(2)
def test_number(cassette): ...
"""

LIGHT = """
import sys

def test_it():
    assert not {"swink_core", "swink_recorder.takes"} & {*sys.modules}
"""


def test_a_marker_is_checked_and_pytest_starts_without_the_core(suite: Path) -> None:
    (suite / "test_a_light.py").write_text(LIGHT)
    (suite / "test_marked.py").write_text(MARKED)
    code, output = run(suite, "one", "test_a_light.py", "test_marked.py")
    assert (code, "1 passed, 4 errors" in output) == (1, True), output
    said = [line for line in output.splitlines() if line.startswith("E  ")]  # not the summary's
    refusal = "UsageError: @pytest.mark.cassette takes a name, mode and speed"
    assert sum(refusal in line for line in said) == 4, output
    assert "which leaves the folder of cassettes: '../a'" in output

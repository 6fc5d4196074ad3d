"""The pytest plugin of swink-testing, in a foreign test suite."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swink_test_helpers.corpus import CORPUS_ENV

COROUTINES = """
import asyncio
import pytest
from hypothesis import given, settings, strategies as st

loops = []

async def test_it_runs():
    loops.append(asyncio.get_running_loop())

async def test_it_may_fail():
    loops.append(asyncio.get_running_loop())
    assert False

def test_each_had_a_loop_of_its_own():
    assert loops[0] is not loops[1]

@pytest.mark.parametrize("number", [1, 2])
async def test_it_takes_arguments(number, tmp_path):
    assert number and tmp_path.is_dir()

@settings(max_examples=5)
@given(st.integers())
async def test_it_takes_examples(number):
    await asyncio.sleep(0)
    assert number == number
"""

MARKED = """
import pytest

@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    config.addinivalue_line("markers", "asyncio: run by somebody else")

def pytest_pyfunc_call(pyfuncitem):
    if pyfuncitem.get_closest_marker("asyncio"):
        pyfuncitem.obj(**pyfuncitem.funcargs).close()
        print("run by somebody else")
        return True
"""


STUBBORN = """
import asyncio
import swink_testing.plugin

swink_testing.plugin.CANCELLED_TASK_SECONDS = 0.01

async def stubborn():
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()

async def test_it_leaves_a_task():
    left = asyncio.ensure_future(stubborn())
    await asyncio.sleep(0)

async def test_the_next_one_runs():
    assert len(asyncio.all_tasks()) == 1
"""


def _pytest(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_coroutine_tests_run(tmp_path: Path) -> None:
    code, output = _pytest(tmp_path, test_coroutines=COROUTINES)
    assert code == 1
    assert "FAILED test_coroutines.py::test_it_may_fail" in output
    assert "1 failed, 5 passed" in output


def test_a_task_that_suppresses_its_cancellation_fails_the_test_that_left_it(
    tmp_path: Path,
) -> None:
    code, output = _pytest(tmp_path, test_stubborn=STUBBORN)
    assert code == 1
    assert "AssertionError: cancelled tasks go on: {<Task cancelling" in output
    assert "1 failed, 1 passed" in output


def test_a_marked_test_is_left_to_whoever_runs_such(tmp_path: Path) -> None:
    test = "import pytest\n@pytest.mark.asyncio\nasync def test_it():\n    assert False\n"
    code, output = _pytest(tmp_path, conftest=MARKED, test_marked=test)
    assert (code, "run by somebody else" in output) == (0, True)


@pytest.mark.parametrize(
    ("profile", "shown"), [("swink", "derandomize=True"), ("swink-fuzz", "max_examples=5000")]
)
def test_profiles_are_known(profile: str, shown: str, tmp_path: Path) -> None:
    test = "from hypothesis import settings\ndef test_it():\n    print(settings.default)\n"
    asked = f"--hypothesis-profile={profile}"
    code, output = _pytest(tmp_path, asked, test_profile=test)
    assert (code, shown in output) == (0, True)


def test_a_corpus_that_is_not_here_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    test = (
        "import pytest\nfrom swink_test_helpers.corpus import cases, ids\n"
        '@pytest.mark.parametrize("case", cases("acme"), ids=ids)\ndef test_a(case): ...\n'
        '@pytest.mark.parametrize("case", cases("acme"), ids=ids)\ndef test_b(case): ...\n'
    )
    monkeypatch.setenv(CORPUS_ENV, str(tmp_path / "absent"))
    code, output = _pytest(tmp_path, test_cases=test)
    assert (code, output.count("no recorded cases")) == (0, 1)
    assert f"2 tests found no recorded cases: there is no {tmp_path / 'absent'}" in output

    (tmp_path / "absent" / "acme").mkdir(parents=True)
    assert "no recorded cases" not in _pytest(tmp_path, test_cases=test)[1]

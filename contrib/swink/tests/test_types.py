"""Check programs and mistakes with mypy and pyright, both strict; and run the programs."""

from __future__ import annotations

import inspect
import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import swink
import swink_core
from swink_core import ClientOptions, Options
from swink_core.providers import TargetOptions

HERE = Path(__file__).parent
PEERS = sorted((HERE / "peers").glob("*/*.py"))
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
CHECKED = [*PROGRAMS, *sorted((HERE / "typed").glob("*.py"))]


def checked(tmp_path: Path, *command: str) -> str:
    """Return the findings of a checker, run in a folder without our settings."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    return done.stdout or done.stderr


@pytest.mark.heavy
def test_mypy_finds_no_more_than_is_marked(tmp_path: Path) -> None:
    cache = f"--cache-dir={HERE / '.mypy_cache'}"
    quiet = ["--strict", "--follow-imports=silent", "--warn-unused-ignores", cache]
    assert checked(tmp_path, "mypy", *quiet, *map(str, CHECKED)).startswith("Success")


@pytest.mark.heavy
def test_pyright_finds_no_more_than_is_marked(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": "error",
        "reportUnusedExpression": "none",
    }
    for path in CHECKED:
        shutil.copy(path, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    found = checked(tmp_path, "pyright", "--pythonpath", sys.executable, "--outputjson")
    summary = json.loads(found)
    told = [f"{Path(each['file']).name}:{each['range']['start']['line'] + 1} {each['message']}"
            for each in summary["generalDiagnostics"]]  # fmt: skip
    assert told == []
    assert summary["summary"]["filesAnalyzed"] == len(CHECKED)


ASSUMED = """
import swink
import swink_core

def options(core: swink_core.Client, client: swink.Client, sync: swink.SyncClient) -> None:
"""

CALL = {*Options.__annotations__}

# (a call that takes options, up to where they are written; the options that it takes)
TAKE_OPTIONS: list[tuple[str, set[str]]] = [
    *(
        (f"{package}Client(", {*ClientOptions.__annotations__})
        for package in ("swink_core.", "swink.", "swink.Sync")
    ),
    ("swink.StreamOptions(", set()),
    ("swink_core.StreamOptions(", set()),
    ("core.target('a/b', ", {*TargetOptions.__annotations__}),
    ("client.target('a/b', ", {*TargetOptions.__annotations__}),
    *(
        (f"{owner}.{call}", CALL)
        for owner in ("swink_core", "core", "swink", "client", "sync")
        for call in ("stream('a/b', 'Hi', ", "complete('a/b', 'Hi', ")
    ),
    *(
        (f"{owner}.{call}", CALL)
        for owner in ("swink", "client", "sync")
        for call in (
            "stream_answer('a/b', 'Hi', type=int, ",
            "answer('a/b', 'Hi', type=int, ",
            "gather('a/b', ['Hi'], ",
            "gather_answers('a/b', ['Hi'], type=int, ",
        )
    ),
    ("swink_core.complete_sync('a/b', 'Hi', ", CALL),
    ("swink.complete_sync('a/b', 'Hi', ", CALL),
    ("swink.answer_sync('a/b', 'Hi', type=int, ", CALL),
    ("client.run('a/b', 'Hi', tools=[len], ", CALL - {"tools"}),
    ("sync.run('a/b', 'Hi', tools=[len], ", CALL - {"tools"}),
]

# (what is passed, the option that the one error names; the empty string: there is none)
PASSED: list[tuple[str, str]] = [
    ("temperatur=0.5", "temperatur"),
    ("temperature='x'", "temperature"),
    ("temperature=None", ""),
]

MISTAKES = [
    (f"    print({call}{passed}))", name) for call, _ in TAKE_OPTIONS for passed, name in PASSED
]

ALL_NONE = [
    f"    print({call}{', '.join(f'{name}=None' for name in sorted(names))}))"
    for call, names in TAKE_OPTIONS
]

LINES = [*ASSUMED.splitlines(), *(line for line, _ in MISTAKES), *ALL_NONE]


def mypy_errors(program: Path) -> list[tuple[int, str]]:
    """Return the lines and messages of mypy's errors."""
    cache = f"--cache-dir={HERE / '.mypy_cache'}"
    quiet = ["--strict", "--follow-imports=silent", "--output=json", cache]
    found = map(json.loads, checked(program.parent, "mypy", *quiet, program.name).splitlines())
    return [(each["line"], each["message"]) for each in found if each["severity"] == "error"]


def pyright_errors(program: Path) -> list[tuple[int, str]]:
    """Return the lines and messages of pyright's errors."""
    named = ["--pythonpath", sys.executable, "--outputjson", program.name]
    found = json.loads(checked(program.parent, "pyright", *named))["generalDiagnostics"]
    return [(each["range"]["start"]["line"] + 1, each["message"]) for each in found]


@pytest.mark.heavy
@pytest.mark.parametrize("errors_of", [mypy_errors, pyright_errors])
def test_a_mistake_in_an_option_is_one_error_that_names_it(
    errors_of: Callable[[Path], list[tuple[int, str]]], tmp_path: Path
) -> None:
    program = tmp_path / "options.py"
    program.write_text("\n".join(LINES) + "\n")
    found = errors_of(program)
    expected = [(LINES.index(line) + 1, name) for line, name in MISTAKES if name]
    assert [line for line, _ in found] == [line for line, _ in expected]
    unnamed = [
        (LINES[line - 1], message)
        for (line, message), (_, name) in zip(found, expected, strict=True)
        if f'"{name}"' not in message
    ]
    assert unnamed == []


def test_mistakes_are_tried_with_every_public_call_that_takes_options() -> None:
    owners: dict[str, Any] = {
        "swink": swink,
        "swink_core": swink_core,
        "client": swink.Client,
        "core": swink_core.Client,
        "sync": swink.SyncClient,
    }
    taking = {
        f"{name}.{call}"
        for name, owner in owners.items()
        for call in dir(owner)
        if call[0] != "_" and "temperature" in parameters_of(getattr(owner, call))
    }
    assert {call.partition("(")[0] for call, _ in TAKE_OPTIONS} == taking


def parameters_of(value: object) -> Collection[str]:
    """Return the names of a function's or class's parameters; of other values, none."""
    if inspect.isfunction(value) or inspect.isclass(value):
        with suppress(ValueError):  # an exception, or another class of C
            return inspect.signature(value).parameters
    return ()


def length(program: Path) -> int:
    """How many lines a program has, those that are empty left out."""
    return sum(bool(line.strip()) for line in program.read_text("utf-8").splitlines())


@pytest.mark.parametrize("peers", PEERS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_program_is_as_short_as_one_that_does_the_same_with_a_peer(peers: Path) -> None:
    assert length(HERE / "programs" / peers.name) <= length(peers)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_runs_and_says_something(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out.strip()

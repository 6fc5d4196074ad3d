"""What mypy and pyright, both strict, say of programs; and the programs run."""

from __future__ import annotations

import json
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PEERS = sorted((HERE / "peers").glob("*/*.py"))
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
CHECKED = [*PROGRAMS, *sorted((HERE / "typed").glob("*.py"))]


def checked(tmp_path: Path, *command: str) -> str:
    """Return what a checker finds, run where no settings of ours are."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    return done.stdout or done.stderr


def test_mypy_finds_no_more_than_is_marked(tmp_path: Path) -> None:
    cache = f"--cache-dir={HERE / '.mypy_cache'}"
    quiet = ["--strict", "--follow-imports=silent", "--warn-unused-ignores", cache]
    assert checked(tmp_path, "mypy", *quiet, *map(str, CHECKED)).startswith("Success")


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

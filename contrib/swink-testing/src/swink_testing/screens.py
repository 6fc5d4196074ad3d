"""What command lines look like in a real terminal (tmux) and in a pipe, pinned as text files.

    LINES = ["models echo", "chat -m echo/echo <<< 'Hi'"]

    @pytest.mark.parametrize("columns", WIDTHS)
    def test_screens(swink_environment, tmp_path, columns):
        check_screen(LINES, columns, SCREENS, tmp_path, swink_environment)

All lines run one after the other in one process, in an empty folder. Behind `<<<` stands what is
piped into a line. With WRITE_SCREENS=1 the files are written anew, to be looked at.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

__all__ = ["PIPE", "WIDTHS", "check_screen"]

PIPE = 0
"""The width of a screen that is none: output goes into a pipe."""

WIDTHS = (40, 80, 200, PIPE)

SECONDS = 120

_PROGRAM = """
import io, shlex, sys
from swink_cli.main import main

keyboard = sys.stdin
for line in shlex.split(sys.argv[1]):
    print("$ swink", line.replace("\\n", " "), flush=True)
    command, _, piped = line.partition(" <<< ")
    given = io.BytesIO("".join(shlex.split(piped)).encode())
    sys.stdin = io.TextIOWrapper(io.BufferedReader(given)) if piped else keyboard
    print(f"[{main(shlex.split(command))}]", flush=True)
"""

_VARYING = [
    (r"\s+·\s+first\s+token\s+[\d.,]+\s+m?s(?:\s+·\s+[\d,]+\s+tokens/s)?", ""),
    (r"(?m)^(version +)\S+$", r"\1(a version)"),
    (r"\bafter [\d.]+ s\b", "after 0.1 s"),
    (r"\b(\d+ bytes in \d+ reads? over) [\d.]+ s", r"\1 0.1 s"),
    (r"/tmp/s\w{8}/", "/tmp/s1234567/"),
    (r"\b[0-9a-f]{12}\b", "0123456789ab"),
    (r"(?m)^[0-9a-f]{6}(?=  )", "012345"),
    (r"\b\d{4}-\d\d-\d\d\b", "2026-11-22"),
    (r"\b\d\d:\d\d\b", "12:34"),
]
"""What is not the same each time: how fast it came, what it is run on, and when."""


def check_screen(
    lines: Sequence[str],
    columns: int,
    screens: Path,
    folder: Path,
    environment: Mapping[str, str],
    varying: Sequence[tuple[str, str]] = (),
) -> None:
    """Compare what lines show, run in a folder, with what the folder `screens` keeps of it.

    `varying` are patterns of what is not the same each time, and what to compare instead.
    """
    program = [sys.executable, "-c", _PROGRAM, shlex.join(lines)]
    given = {**environment, "NO_COLOR": "1"}
    shown = _in_tmux(program, columns, folder, given) if columns else _piped(program, folder, given)
    told = "\n".join(line.rstrip() for line in shown.splitlines()).strip() + "\n"
    for pattern, replacement in (*_VARYING, *varying):
        told = re.sub(pattern, replacement, told)
    file = screens / f"{columns or 'pipe'}.txt"
    if os.environ.get("WRITE_SCREENS"):
        screens.mkdir(exist_ok=True)
        file.write_text(told, "utf-8")
    assert told == file.read_text("utf-8")


def _in_tmux(program: list[str], columns: int, folder: Path, environment: Mapping[str, str]) -> str:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    tmux = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
    ended = shlex.join([*tmux, "wait-for", "-S", "ended"])

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [*tmux, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
            timeout=SECONDS, check=True,
        )  # fmt: skip
        return done.stdout

    command = f"{shlex.join(program)} 2>&1; {ended}; exec cat"
    run("new-session", "-d", "-x", str(columns), "-y", "800", command)
    try:
        run("wait-for", "ended")
        return run("capture-pane", "-p")
    finally:
        run("kill-server")


def _piped(program: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        program, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=True,
    )  # fmt: skip
    return done.stdout

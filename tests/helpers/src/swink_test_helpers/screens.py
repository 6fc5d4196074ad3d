"""The output of command lines in a real terminal (tmux) and in a pipe, pinned as text files.

    LINES = ["models echo", "chat -m echo/echo <<< 'Hi'", Typed("gateway", [("Ctrl-C", "\\x03")])]

    @pytest.mark.parametrize("columns", WIDTHS)
    def test_screens(swink_environment, tmp_path, columns):
        check_screen(LINES, columns, SCREENS, tmp_path, swink_environment)

All lines run one after the other in one process, in an empty folder. Behind `<<<` stands what is
piped into a line. With WRITE_SCREENS=1 the files are written anew, to be looked at.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

__all__ = ["INTERRUPT", "PIPE", "WIDTHS", "Typed", "check_screen", "is_waiting"]

PIPE = 0
"""The width that means a pipe instead of a screen."""

WIDTHS = (
    pytest.param(40, marks=pytest.mark.heavy),
    80,
    pytest.param(200, marks=pytest.mark.heavy),
    PIPE,
)

INTERRUPT = "\x03"
"""Ctrl-C, as a terminal has it."""

SECONDS = 60

_PROGRAM = """
import importlib.metadata, io, os, pathlib, shlex, signal, sys
from swink_cli import extensions, main as program
from swink_cli.commands.doctor import plugins as doctor
from swink_core.plugins.host import PluginEntry

# a release changes no screen: neither a number on it nor where its lines break
importlib.metadata.Distribution.version = PluginEntry.version = "1.2.3"
program._version = lambda name: "1.2.3"
extensions.version_of = lambda dist: "1.2.3"
doctor._unmet = lambda installed: ()  # which compares versions
signal.signal(signal.SIGINT, signal.default_int_handler)
pathlib.Path(sys.argv[2]).write_text(str(os.getpid()))
keyboard = sys.stdin
for line in shlex.split(sys.argv[1]):
    print("$ swink", line.replace("\\n", " "), flush=True)
    command, _, piped = line.partition(" <<< ")
    given = io.BytesIO("".join(shlex.split(piped)).encode())
    sys.stdin = io.TextIOWrapper(io.BufferedReader(given)) if piped else keyboard
    print(f"[{program.main(shlex.split(command))}]", flush=True)
"""

_VARYING = [
    (r"\s+·\s+first\s+token\s+[\d.,]+\s+m?s(?:\s+·\s+[\d,]+\s+tokens/s)?", ""),
    (r"\bafter [\d.]+ s\b", "after 0.1 s"),
    (r"\b(\d+ bytes in \d+ reads? over) [\d.]+ s", r"\1 0.1 s"),
    (r"/tmp/s\w{8}/", "/tmp/s1234567/"),
    (r"\b[0-9a-f]{12}\b", "0123456789ab"),
    (r"(?m)^[0-9a-f]{6}(?=  )", "012345"),
    (r"\b\d{4}-\d\d-\d\d\b", "2026-11-22"),
    (r"\b\d\d:\d\d\b", "12:34"),
]
"""Text that varies between runs: speed, machine and time."""


class Typed(NamedTuple):
    """A line, and what is typed while it runs: a text that is waited for, and the keys then.

    Text that Ctrl-C erases from the screen is pinned as well. In a pipe, only Ctrl-C can be
    pressed.
    """

    line: str
    steps: Sequence[tuple[str, str]]


def check_screen(
    lines: Sequence[str | Typed],
    columns: int,
    screens: Path,
    folder: Path,
    environment: Mapping[str, str],
    varying: Sequence[tuple[str, str]] = (),
) -> None:
    """Compare what lines show, run in a folder, with what the folder `screens` keeps of it.

    `varying` are patterns of what is not the same each time, and what to compare instead.
    """
    texts = [line.line if isinstance(line, Typed) else line for line in lines]
    typed = [line for line in lines if isinstance(line, Typed)]
    program = [sys.executable, "-c", _PROGRAM, shlex.join(texts), str(folder / "pid")]
    given = {**environment, "NO_COLOR": "1"}
    if columns:
        shown = _in_tmux(program, typed, columns, folder, given)
    else:
        shown = _piped(program, typed, folder, given)
    told = "\n".join(line.rstrip() for line in shown.splitlines()).strip() + "\n"
    for pattern, replacement in (*_VARYING, *varying):
        told = re.sub(pattern, replacement, told)
    file = screens / f"{columns or 'pipe'}.txt"
    if os.environ.get("WRITE_SCREENS"):
        screens.mkdir(exist_ok=True)
        file.write_text(told, "utf-8")
    assert told == file.read_text("utf-8")


def is_waiting(pid: int) -> bool:
    """Tell whether a process waits for something: a key, where it has nothing to do.

    Python sees a Ctrl-C at its prompt only while it waits for a key.
    """
    seen = Path(f"/proc/{pid}/stat")
    if seen.exists():
        return seen.read_text().rpartition(")")[2].split()[0] == "S"
    told = ["ps", "-o", "state=", "-p", str(pid)]
    return subprocess.check_output(told, text=True).startswith(("S", "I"))


def _type(typed: Sequence[Typed], source: int, press: Callable[[str], None]) -> bytes:
    """Press keys when what is waited for has come out of `source`; return what came."""
    output, seen = b"", 0
    for line, steps in typed:
        for awaited, keys in [(f"$ swink {line}", ""), *steps]:
            needle = awaited.encode()
            while (found := output.find(needle, seen)) < 0:
                ready, _, _ = select.select([source], [], [], SECONDS)
                piece = os.read(source, 65536) if ready else b""
                assert piece, f"{awaited!r} never came: {output[seen:]!r}"
                output += piece
            seen = found + len(needle)
            if keys:
                press(keys)
    return output


def _in_tmux(
    program: list[str],
    typed: Sequence[Typed],
    columns: int,
    folder: Path,
    environment: Mapping[str, str],
) -> str:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    tmux = ["tmux", "-S", str(folder / "tmux"), "-f", os.devnull]
    begun, ended = (shlex.join([*tmux, "wait-for", *words]) for words in (["begin"], ["-S", "end"]))
    interrupted = []

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [*tmux, *arguments], cwd=folder, env=environment, capture_output=True, text=True,
            timeout=SECONDS, check=True,
        )  # fmt: skip
        return done.stdout

    def press(keys: str) -> None:
        if keys == INTERRUPT:
            end = time.monotonic() + SECONDS
            while not is_waiting(int((folder / "pid").read_text())):
                assert time.monotonic() < end, "the program never waited"
                time.sleep(0.005)
            screen = run("capture-pane", "-p")
            interrupted.append(screen[max(0, screen.rfind("$ swink")) :].strip())
        run("send-keys", "-H", *(f"{key:02x}" for key in keys.encode()))

    output = folder / "output"
    os.mkfifo(output)
    source = os.open(output, os.O_RDWR | os.O_NONBLOCK)
    # the shell stays when the program is interrupted
    command = f"trap : INT; {begun}; {shlex.join(program)} 2>&1; {ended}; exec cat"
    run("new-session", "-d", "-x", str(columns), "-y", "1000", command)
    try:
        run("pipe-pane", f"exec cat >{shlex.quote(str(output))}")
        run("wait-for", "-S", "begin")
        _type(typed, source, press)
        run("wait-for", "end")
        shown = run("capture-pane", "-p").strip()
        gone = [screen for screen in interrupted if screen not in shown]
        return "\n\nwhen it was interrupted:\n".join([shown, *gone])
    finally:
        run("kill-server")
        os.close(source)


def _piped(
    program: list[str], typed: Sequence[Typed], folder: Path, environment: Mapping[str, str]
) -> str:
    with subprocess.Popen(
        program, cwd=folder, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as running:  # fmt: skip
        assert running.stdout is not None
        try:
            output = _type(
                typed, running.stdout.fileno(), lambda _: running.send_signal(signal.SIGINT)
            )
            return (output + running.stdout.read()).decode()
        except BaseException:
            running.kill()
            raise

"""Runs the command `swink` in a separate process, without the user's keys, settings and history.

The pytest fixture `swink` runs a command line to its end: `swink("ask", "-m", "echo/echo", "Hi")`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["clean_environment", "run_swink", "swink_command"]

SECONDS = 60
"""Seconds that a process may take before a test fails. A working process takes much less."""


def clean_environment(folder: Path) -> dict[str, str]:
    """Return environment variables with `folder` as the home directory, and without API keys."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_STATE_HOME": str(folder / "state"),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "PYTHONWARNINGS": "error",
        "NO_PROXY": "*",
    }


def swink_command(*arguments: str) -> list[str]:
    """Return the arguments that start this environment's `swink`."""
    return [sys.executable, "-m", "swink_cli", *arguments]


def run_swink(
    *arguments: str, environment: Mapping[str, str], stdin: str | bytes = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command line to its end; `stdin` is its standard input."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = subprocess.run(
        swink_command(*arguments),
        input=given,
        capture_output=True,
        timeout=SECONDS,
        env=dict(environment),
        check=False,
    )
    return subprocess.CompletedProcess(
        arguments, done.returncode, done.stdout.decode(), done.stderr.decode()
    )

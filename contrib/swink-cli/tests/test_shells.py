"""Completion in the shells themselves, each set up by the line that the README has for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ""),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit && compinit -D -u; "),
}

# the beginning of a line, and the line that the Tab key makes of it
LINES = [
    ("swink ask -m echoe", "swink ask -m echoes"),
    ("swink -m echo/thi", "swink -m echo/think"),
    ("swink model ech", "swink model echo"),
]


@pytest.fixture
def environment(swink_environment: dict[str, str], swink: Any) -> dict[str, str]:
    """Where `swink` is found, with few providers and a short name."""
    command = Path(sys.executable).with_name("swink")
    if not command.exists():
        pytest.skip("there is no swink beside this interpreter")
    assert swink("alias", "echoes", "echo/echo").returncode == 0
    path = os.pathsep.join([str(command.parent), swink_environment["PATH"]])
    return {"PATH": path, "SWINK_PLUGINS": "echo,openai", "PS1": "$ "}


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tab_completes_models_and_short_names(
    start: Any, environment: dict[str, str], shell: str
) -> None:
    command, before = SHELLS[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    running = start(command=command, size=(80, 24), **environment)
    setup = f'{before}eval "$(_SWINK_COMPLETE={shell}_source swink)"; swink() {{ echo "[$*]"; }}'
    running.type(f"{setup}; echo rea''dy\n")
    running.wait_for("ready\r\n")
    for typed, completed in LINES:
        running.type(f"{typed}\t\n")  # what is completed is run, and a function prints it
        running.wait_for(f"[{completed.removeprefix('swink ')}]")
    running.type("exit\n")
    running.finish()


def test_fish_completes_models_and_short_names(
    swink_environment: dict[str, str], environment: dict[str, str]
) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    setup = "_SWINK_COMPLETE=fish_source swink | source"
    asked = "; ".join(f"complete --do-complete '{typed}'" for typed, _ in LINES)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"{setup}; {asked}"],
        env={**swink_environment, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert offered == [line.rpartition(" ")[2] for _, line in LINES]

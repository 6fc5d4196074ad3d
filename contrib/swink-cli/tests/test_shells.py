"""Completion in the shells themselves, each set up by the line that the README has for it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from swink_test_helpers.installed import install

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], ""),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit && compinit -D -u; "),
}

# the beginning of a line, and the line that the Tab key makes of it; CALL is one that is kept
LINES = [
    ("swink ask -m echoe", "swink ask -m echoes"),
    ("swink -m echo/thi", "swink -m echo/think"),
    ("swink -t gre", "swink -t greet"),
    ("swink ask -T weath", "swink ask -T weather"),
    ("swink log show CAL", "swink log show CALL"),
]


@pytest.fixture
def environment(swink_environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """Where `swink` is found, with few providers, a short name, a template and a plugin's tool."""
    command = Path(sys.executable).with_name("swink")
    if not command.exists():
        pytest.skip("there is no swink beside this interpreter")
    path = os.pathsep.join([str(command.parent), swink_environment["PATH"]])
    tool = {"swink.tools": {"weather": "weather_tool:tell"}}
    install(tmp_path / "site", "weather-tool", tool, {"weather_tool.py": "nobody imports it"})
    config = tmp_path / "config.toml"
    config.write_text('aliases.echoes = "echo/echo"')
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "greet.toml").write_text('prompt = "Hi"')
    return {
        "PATH": path,
        "PYTHONPATH": str(tmp_path / "site"),
        "SWINK_PLUGINS": "echo,openai",
        "SWINK_CONFIG": str(config),
        "PS1": "$ ",
    }


@pytest.fixture
def lines(swink: Any) -> list[tuple[str, str]]:
    """Lines to complete, with the id of a call that is kept."""
    assert swink("ask", "-m", "echo/echo", "Hi").returncode == 0
    (call,) = json.loads(swink("log", "list", "--json").stdout)
    id = call["id"]
    return [(typed.replace("CAL", id[:6]), whole.replace("CALL", id)) for typed, whole in LINES]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_tab_completes_what_a_person_names(
    start: Any, environment: dict[str, str], lines: list[tuple[str, str]], shell: str
) -> None:
    command, before = SHELLS[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    running = start(command=command, size=(80, 24), **environment)
    setup = f'{before}eval "$(_SWINK_COMPLETE={shell}_source swink)"; swink() {{ echo "[$*]"; }}'
    running.type(f"{setup}; echo rea''dy\n")
    running.wait_for("ready\r\n")
    for typed, completed in lines:
        running.type(f"{typed}\t\n")  # what is completed is run, and a function prints it
        running.wait_for(f"[{completed.removeprefix('swink ')}]")
    running.type("exit\n")
    running.finish()


def test_fish_completes_what_a_person_names(
    swink_environment: dict[str, str], environment: dict[str, str], lines: list[tuple[str, str]]
) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    setup = "_SWINK_COMPLETE=fish_source swink | source"
    asked = "; ".join(f"complete --do-complete '{typed}'" for typed, _ in lines)
    done = subprocess.run(
        ["fish", "--no-config", "-c", f"{setup}; {asked}"],
        env={**swink_environment, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    offered = [line.split("\t")[0] for line in done.stdout.splitlines()]
    assert offered == [line.rpartition(" ")[2] for _, line in lines]

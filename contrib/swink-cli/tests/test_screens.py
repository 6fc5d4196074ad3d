"""What commands look like in a real terminal of 40, 80 and 200 columns, and in a pipe.

The screens are in `screens/`; with WRITE_SCREENS=1 they are written anew, to be looked at.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCREENS = Path(__file__).parent / "screens"

LINES = """
alias --help
keys set --help
ask -m echo/echo "# Tides\n\nThe *moon* pulls the **sea**, and the sea follows it round the earth.
\n- high water\n- low water\n\n```python\nprint('ebb')\n```"
ask -m echo/fail-auth Hi
events -m echo/echo Hi
models echo -q stop -q think
models -q nothing
default echo/echo
alias quick echo/echo echo/think
aliases
config
config get aliases.quick
config get colour
keys
provider echo
ask -m echo/fail-auth -m echo/echo Hi
ask -m echo/tool -y --functions "def look(city: str, day: int = 1): 'Look.'; return city" Oslo
ask -m echo/echo -s "Into $language" --save translate "Translate: $input"
template
ask -t translate Hi
log
log conversations
log costs
tools
tools --functions "def look(city: str): 'Look out of the window, and say what is to be seen.'"
modles
ask --nonsense
ask
"""

PROGRAM = """
import shlex, sys
from swink_cli.main import main

for line in shlex.split(sys.argv[1]):
    print("$ swink", line.replace("\\n", " "), flush=True)
    print(f"[{main(shlex.split(line))}]", flush=True)
"""


@pytest.fixture
def environment(swink_environment: dict[str, str]) -> dict[str, str]:
    """One provider, and a configuration whose name is no longer than a name."""
    more = {"SWINK_PLUGINS": "echo", "SWINK_CONFIG": "config.toml", "NO_COLOR": "1"}
    return {**swink_environment, **more}


def program() -> list[str]:
    """What prints the screens, one line of LINES after the other."""
    lines = re.findall(r"(?:[^\n\"]|\"[^\"]*\")+", LINES)
    return [sys.executable, "-c", PROGRAM, shlex.join(lines)]


def compare(name: str, output: str) -> None:
    """Compares output with what is kept of it, but for how fast it came and what it is run on."""
    told = "\n".join(line.rstrip() for line in output.splitlines()).strip() + "\n"
    told = re.sub(
        r"^echo/echo · .*?(?=^\[)", "(who answered)\n", told, flags=re.DOTALL | re.MULTILINE
    )
    told = re.sub(r"^(version +)\S+$", r"\1(a version)", told, flags=re.MULTILINE)
    told = re.sub(r"\b[0-9a-f]{12}\b", "0123456789ab", told)
    told = re.sub(r"^[0-9a-f]{6}(?=  )", "012345", told, flags=re.MULTILINE)
    told = re.sub(r"\b\d{4}-\d\d-\d\d\b", "2026-11-22", told)
    told = re.sub(r"\b\d\d:\d\d\b", "12:34", told)
    file = SCREENS / f"{name}.txt"
    if os.environ.get("WRITE_SCREENS"):
        SCREENS.mkdir(exist_ok=True)
        file.write_text(told, "utf-8")
    assert told == file.read_text("utf-8")


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_screens_of_a_terminal(environment: dict[str, str], tmp_path: Path, columns: int) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    tmux = ["tmux", "-S", str(tmp_path / "tmux"), "-f", os.devnull]
    ended = shlex.join([*tmux, "wait-for", "-S", "ended"])
    command = f"{shlex.join(program())} 2>&1; {ended}; exec cat"

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [*tmux, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True,
            timeout=120, check=True,
        )  # fmt: skip
        return done.stdout

    run("new-session", "-d", "-x", str(columns), "-y", "400", command)
    try:
        run("wait-for", "ended")
        compare(str(columns), run("capture-pane", "-p"))
    finally:
        run("kill-server")


def test_screens_of_a_pipe(environment: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        program(), cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=True,
    )  # fmt: skip
    compare("pipe", done.stdout)

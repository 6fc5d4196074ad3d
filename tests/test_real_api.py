"""The tutorial of a real API, step by step: its commands and files have the described results."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from documents import ROOT, files_of, shell_lines

from swink_test_helpers import fork_server
from swink_test_helpers.installed import install
from swink_testing.command_line import clean_environment

PAGE = ROOT / "docs/tutorials/a-real-api.md"
RESULT = (
    "qwen: consistent: 29 checks hold, 4 do not apply",
    "qwen: evidence: 10 of 25, from 3 recordings of a real server (0 confirmed by a person) "
    "and rows",
)


def test_the_steps_of_the_page_lead_to_what_it_says(tmp_path: Path) -> None:
    environment = clean_environment(tmp_path)
    commands = tmp_path / "commands"
    commands.mkdir()
    handed_on = [fork_server.stand_in(commands)]
    environment["PATH"] = f"{commands}:{Path(sys.executable).parent}:{environment['PATH']}"

    def typed(*lines: str, cwd: Path) -> str:
        done = subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            cwd=cwd,
            env=environment,
            pass_fds=handed_on,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.stdout

    get, new, enter, install_it, *rest = shell_lines(PAGE)
    assert get == "pip install 'swink-cli[new]'"
    assert enter == "cd swink-provider-qwen"
    assert install_it == "pip install -e '.[test]'"  # tests/test_template.py installs
    typed(new, cwd=tmp_path)
    folder = tmp_path / enter.removeprefix("cd ")
    for name, text in files_of(PAGE).items():
        (folder / name).write_text(text, "utf-8")
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    install(tmp_path / "site", project["name"], project["entry-points"], {})
    environment["PYTHONPATH"] = f"{tmp_path / 'site'}:{folder / 'src'}"

    output = typed(*rest, cwd=folder)

    for line in RESULT:
        assert f"\n{line}\n" in output, output
    assert output.count("\nrecorded ") == 3
    assert all(f"    {line}\n" in PAGE.read_text("utf-8") for line in RESULT)

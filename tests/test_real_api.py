"""The tutorial of a real API, step by step: what it says is typed and written, and what it says
comes of it.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from documents import ROOT, files_of, shell_lines

from swink_testing.command_line import clean_environment

PAGE = ROOT / "docs/tutorials/a-real-api.md"
LEVEL = "qwen: level 3 of 3, complete (28 of 30 checks applied)"


def install(folder: Path, into: Path) -> None:
    """Make a package's metadata, which is all that its entry points need beside a path."""
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    info = into / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    written = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(written, "utf-8")
    ((group, points),) = project["entry-points"].items()
    rows = "\n".join(f"{name} = {value}" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{rows}\n", "utf-8")


def test_the_steps_of_the_page_lead_to_what_it_says(tmp_path: Path) -> None:
    environment = clean_environment(tmp_path)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"

    def typed(*lines: str, cwd: Path) -> str:
        done = subprocess.run(
            ["bash", "-c", "\n".join(lines)],
            cwd=cwd,
            env=environment,
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
    install(folder, tmp_path / "site")
    environment["PYTHONPATH"] = f"{tmp_path / 'site'}:{folder / 'src'}"

    output = typed(*rest, cwd=folder)

    assert output.rstrip().endswith(LEVEL), output
    assert output.count("\nrecorded ") == 3
    assert f"    {LEVEL}\n" in PAGE.read_text("utf-8")

"""The commands of the pages are run, in a temporary home, without a vendor.

The commands of a page form one script; its `swink` is a fork of a process that has imported the
common modules, except for the first page. Installers and `make` are not run: the test checks that
their targets exist. Commands that cannot run here are in `NOT_RUN`, with the reason.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from documents import PAGES, ROOT, name_of, shell_lines, vendors
from fakes import free_port
from packaging.requirements import InvalidRequirement, Requirement

from swink_test_helpers import fork_server
from swink_testing.command_line import clean_environment

TYPED = [page for page in PAGES if shell_lines(page)]

NOT_RUN = {
    "docs/how-to/add-a-command.md swink count": "the page's command is installed by nobody",
    "docs/how-to/check-a-provider.md swink check acme --recordings cases/": "a reader's recordings",
    "docs/how-to/tools-in-the-terminal.md swink ask -m openai/": "its server would be downloaded",
    "docs/tutorials/a-real-api.md ": "tests/test_real_api.py takes these steps",
    "docs/tutorials/write-a-provider.md ": "tests/test_template.py takes these steps",
    "plugins/swink-provider-claude-code/README.md swink": "the vendor's command is not here",
    "plugins/swink-provider-local/README.md swink": "it would download a model",
    "plugins/swink-provider-local/README.md python -m swink_provider_local pull": "the same",
    "plugins/swink-provider-proxy/README.md swink": "its tests have a gateway",
}
"""How lines begin that are not run, and why."""

REPLACED = [
    (r"swink check acme --mutants", "swink check --help"),  # minutes, and tests of their own
    (r"swink check acme", "swink check echo"),
    (r"swink check$", "swink check --help"),  # all providers: minutes, and tests of their own
    (r"swink demo$", "swink demo echo --speed 50"),
    (r"swink (gateway|tail|top)\b.*", r"swink \1 --help"),  # they end by Ctrl-C alone
    (r"swink spend\b.*", "swink spend --help"),  # of a gateway that has run
    (r"(?=swink.* keys set)", "echo sk-test | "),  # which a person would be asked for
    (r"openai/gpt-5\.4-mini(?= --schema)", "echo/echo"),  # a recording keeps to no schema
    (r"completion --install", "completion bash --install"),
    (r"--code\b", "--raw"),  # the answers of the stand-ins have no code
    (r"path/to/a/recording", "--help"),
    (r"\bc1c8\b", "$(swink log conversations | awk 'NR == 2 {print substr($1, 1, 6)}')"),
    (r"\bd974\b", "$(swink log list | awk 'NR == 2 {print substr($1, 1, 6)}')"),
]
"""Replacements for placeholders: a provider, recording, conversation or call."""

PRELUDE = """set -euo pipefail
git() { echo "+ a change"; }
opentelemetry-instrument() { "$@"; }
"""

FILES = {
    "your_program.py": """import swink
print(swink.complete_sync("echo/echo", "Hello").text)
""",
    "reviews.csv": "text\nGreat.\nIt broke after a day.\n",
    "turns.txt": "Hello.\n",
    "weather.py": "def get_weather(city: str) -> str: return city",
}
"""Files that a reader would have written."""

OTHERS = {"httpx2", "opentelemetry-distro", "opentelemetry-exporter-otlp", "starlette", "uvicorn"}
"""Distributions of others that pages install."""


def is_run(page: Path, line: str) -> bool:
    """Tell whether a line is run, and not looked up or left out."""
    words = [word for word in shlex.split(line) if "=" not in word.partition(" ")[0]] or [line]
    asked = f"{name_of(page)} {line}"
    return words[0] not in {"pip", "npm", "make"} and not any(map(asked.startswith, NOT_RUN))


def as_typed(line: str, environment: dict[str, str]) -> str:
    """Put in what a reader would put in."""
    variable = re.match(r"export (\w+)=", line)
    if variable and variable[1] in environment:
        return ""  # the address and the key of a stand-in
    for pattern, text in REPLACED:
        line = re.sub(pattern, text.replace("$1", r"$1"), line)
    return re.sub(r"^(\w+=)\d{4}\b", lambda found: f"{found[1]}{free_port()}", line)


RUN = [page for page in TYPED if any(is_run(page, line) for line in shell_lines(page))]


@pytest.mark.parametrize(
    "page",
    [
        page if page == ROOT / "README.md" else pytest.param(page, marks=pytest.mark.heavy)
        for page in RUN
    ],
    ids=map(name_of, RUN),
)
def test_the_shell_lines_of_a_page_run(page: Path, tmp_path: Path) -> None:
    lines = [line for line in shell_lines(page) if is_run(page, line)]
    environment = clean_environment(tmp_path)
    commands = tmp_path / "commands"
    commands.mkdir()
    handed_on = [fork_server.stand_in(commands)] if page != ROOT / "README.md" else []
    environment["PATH"] = f"{commands}:{Path(sys.executable).parent}:{environment['PATH']}"
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, "utf-8")
    with vendors("\n".join(lines), environment):
        script = PRELUDE + "\n".join(as_typed(line, environment) for line in lines)
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment,
            pass_fds=handed_on,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


def test_skipped_commands_are_still_in_the_pages() -> None:
    asked = [f"{name_of(page)} {line}" for page in TYPED for line in shell_lines(page)]
    gone = [start for start in NOT_RUN if not any(line.startswith(start) for line in asked)]
    assert gone == []


def ours() -> dict[str, set[str]]:
    """Return the distributions of this repository, each with its extras."""
    files = [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    projects = [
        tomllib.loads(file.read_text("utf-8"))["project"]
        for file in [*files, *ROOT.glob("contrib/*/pyproject.toml")]
    ]
    return {p["name"]: set(p.get("optional-dependencies", ())) for p in projects}


def test_packages_in_pip_commands_exist() -> None:
    known, missing = ours(), []
    for page in TYPED:
        for line in shell_lines(page):
            for word in shlex.split(line)[2:] if line.startswith("pip install ") else ():
                folder = word.partition("[")[0]  # of ours, or the one that the page made
                if word.startswith(("-", "dev")) or (word[0] == "." and (ROOT / folder).exists()):
                    continue
                try:
                    asked = Requirement(word)
                except InvalidRequirement:
                    missing.append(f"{name_of(page)}: {word}")
                    continue
                if asked.name not in OTHERS and not asked.extras <= known.get(asked.name, {word}):
                    missing.append(f"{name_of(page)}: {word}")
                if asked.name not in known.keys() | OTHERS:
                    missing.append(f"{name_of(page)}: {word}")
    assert missing == []


def test_pages_with_swink_commands_say_how_to_install_it() -> None:
    for page in TYPED:
        lines = shell_lines(page)
        told = " ".join(line for line in lines if line.startswith("pip install "))
        made = any(line.startswith("make ") for line in lines)  # which installs everything
        if told and not made and any(line.startswith("swink ") for line in lines):
            assert re.search(r"swink-cli\b|\bcli\b|-e \.", told), name_of(page)


@pytest.mark.parametrize("folder", sorted((ROOT / "plugins").iterdir()), ids=lambda path: path.name)
def test_the_readme_of_a_provider_begins_as_that_of_a_new_one(folder: Path) -> None:
    lines = shell_lines(folder / "README.md")
    install = next(line for line in lines if line.startswith("pip "))
    assert install == f"pip install swink-cli {folder.name}"
    asked = next(line for line in lines if line.startswith("swink "))
    assert re.fullmatch(r'swink ask -m [\w-]+/\S+ ".*\?"', asked)


def needs(folder: Path) -> tuple[str, set[str]]:
    """Return the name of the distribution in a folder, and the repository's distributions that it
    needs.
    """
    project = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {Requirement(each).name for each in project.get("dependencies", ())}
    return project["name"], needed & ours().keys()


def test_folders_that_pip_is_told_to_install_need_no_others() -> None:
    found = 0
    for page in TYPED:
        lines = [line for line in shell_lines(page) if line.startswith("pip install .")]
        folders = [ROOT / word for line in lines for word in shlex.split(line)[2:]]
        named = dict(needs(folder) for folder in folders if folder.is_dir())
        assert set().union(*named.values()) <= named.keys(), name_of(page)
        found += bool(named)
    assert found >= 2


def test_documented_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    asked = {
        line.split()[1] for page in TYPED for line in shell_lines(page) if line.startswith("make ")
    }
    assert asked <= targets
    assert asked

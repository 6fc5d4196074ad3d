"""Commands of other distributions: listed unseen, imported when called, at fault alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from swink_cli.main import COMMANDS, ELSEWHERE
from swink_test_helpers.installed import install

HELLO = '''
import os
from pathlib import Path

import click

Path(os.environ["IMPORT_MARK"]).touch()


@click.command("hello")
@click.argument("name")
def command(name):
    """Greet."""
    click.echo(f"Hello, {name}!")
    return 3 if name == "nobody" else 0


@click.command("stumble")
def stumble():
    raise ZeroDivisionError("by zero")


number = 7
'''


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Two distributions: one whose commands work, and one whose commands are all at fault."""
    folder = tmp_path / "site"
    greeting = {
        "hello": "acme_hello:command",
        "stumble": "acme_hello:stumble",
        "ask": "acme_hello:command",
    }
    broken = {
        "raises": "broken_commands:command",
        "absent": "no_such_module:command",
        "nameless": "acme_hello:nothing",
        "number": "acme_hello:number",
        "exits": "exiting_commands:command",
    }
    install(
        folder,
        "acme-hello",
        {"swink.commands": {**greeting, "twice": "acme_hello:command"}},
        {"acme_hello.py": HELLO},
        summary="Greet people",
    )
    install(
        folder,
        "acme-broken",
        {"swink.commands": {**broken, "twice": "acme_hello:command"}},
        {
            "broken_commands.py": "raise RuntimeError('no such luck')\n",
            "exiting_commands.py": "raise SystemExit(9)\n",
        },
        version="2.5",
    )
    return folder


@pytest.fixture
def extended(
    swink: Callable[..., subprocess.CompletedProcess[str]], site: Path, tmp_path: Path
) -> Any:
    """Runs `swink` where both are installed; `imported` says whether a command was."""
    mark = tmp_path / "imported"

    def run(*arguments: str, **more: str) -> Any:
        mark.unlink(missing_ok=True)
        done: Any = swink(*arguments, PYTHONPATH=str(site), IMPORT_MARK=str(mark), **more)
        done.imported = mark.exists()
        return done

    return run


def help_of(output: str) -> str:
    return " ".join(output.partition("Commands of other distributions:")[2].split())


def test_the_help_has_a_distributions_commands_in_a_row_with_its_summary(extended: Any) -> None:
    done = extended("--help", COLUMNS="200")

    assert (done.returncode, done.stderr, done.imported) == (0, "", False)
    assert "hello, stumble Greet people (acme-hello 1.0)" in help_of(done.stdout)


def test_a_distribution_without_a_summary_is_named(extended: Any) -> None:
    said = help_of(extended("--help", COLUMNS="200").stdout)

    assert "absent, exits, nameless, number, raises acme-broken 2.5" in said


def test_the_help_lists_unavailable_commands(extended: Any) -> None:
    said = help_of(extended("--help", COLUMNS="200").stdout)

    assert "twice claimed by acme-broken 2.5 and acme-hello 1.0" in said
    assert "ask skipped, from acme-hello 1.0: swink has a command with this name" in said


def test_metadata_cannot_control_a_terminal(swink: Any, tmp_path: Path) -> None:
    points = {"swink.commands": {"paint": "acme_paint:command"}}
    install(tmp_path / "site", "acme-paint", points, {}, summary="\x1b[31mPaint\x1b]0;title\x07")

    said = swink("--help", PYTHONPATH=str(tmp_path / "site"), COLUMNS="200").stdout

    assert r"paint \x1b[31mPaint\x1b]0;title\x07 (acme-paint 1.0)" in help_of(said)
    assert "\x1b" not in said


def test_a_command_is_imported_when_it_is_called(extended: Any) -> None:
    done = extended("hello", "Ada")

    assert (done.returncode, done.stdout, done.stderr) == (0, "Hello, Ada!\n", "")
    assert done.imported


def test_its_exit_code_is_that_of_swink(extended: Any) -> None:
    assert extended("hello", "nobody").returncode == 3


def test_its_usage_is_shown_as_for_any_command(extended: Any) -> None:
    done = extended("hello")

    assert done.returncode == 2
    assert "Usage: swink hello [OPTIONS] NAME" in done.stderr


@pytest.mark.parametrize(
    ("name", "title", "words"),
    [
        ("raises", "Broken command", ["RuntimeError: no such luck", "acme-broken 2.5"]),
        ("exits", "Broken command", ["SystemExit: 9", "acme-broken 2.5"]),
        ("absent", "Broken command", ["No module named 'no_such_module'", "acme-broken 2.5"]),
        ("nameless", "Broken command", ["AttributeError", "nothing", "acme-broken 2.5"]),
        ("number", "Broken command", ["not a click command but int", "acme_hello:number"]),
        ("twice", "Duplicate command", ["acme-broken 2.5 and acme-hello 1.0"]),
    ],
)
def test_an_error_names_the_distribution(
    extended: Any, name: str, title: str, words: list[str]
) -> None:
    done = extended(name)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {title}\n")
    assert [word for word in words if word not in done.stderr] == []
    assert "Traceback" not in done.stderr


# what the module of a command imports, what the command says to do
NEEDS: list[tuple[str, str]] = [
    ("aiohttp_of_nobody", "pip install 'acme-top[cli]'"),
    ("aiohttp_of_nobody.client", "pip install 'acme-top[cli]'"),
    ("acme_top.gone", "Update or uninstall that distribution"),
]


@pytest.mark.parametrize(("module", "advice"), NEEDS)
def test_a_command_whose_extra_is_not_installed_names_it_and_so_does_the_doctor(
    swink: Any, tmp_path: Path, module: str, advice: str
) -> None:
    points = {"swink.commands": {"watch": "acme_top:command"}, "swink.tools": {"t": "acme_top:t"}}
    install(tmp_path, "acme-top", points, {"acme_top/__init__.py": f"import {module}\n"})
    with (tmp_path / "acme_top-1.0.dist-info" / "METADATA").open("a") as file:
        file.write("Provides-Extra: cli\n")

    done = swink("watch", PYTHONPATH=str(tmp_path))
    assert (done.returncode, advice in done.stderr.splitlines()[-1]) == (1, True)
    told = swink("doctor", PYTHONPATH=str(tmp_path))
    assert (told.returncode, "the tool t\n" in told.stdout) == (1, True)
    assert f"the command watch\n  {done.stderr.splitlines()[1]}\n" in told.stdout
    assert advice in told.stdout


def test_the_trace_of_a_broken_command_is_for_those_who_ask(extended: Any) -> None:
    done = extended("--debug", "raises")

    assert "Traceback" in done.stderr
    assert "broken_commands.py" in done.stderr


def test_a_failing_command_is_named_with_its_distribution(extended: Any) -> None:
    done = extended("stumble")

    assert done.returncode == 1
    assert done.stderr.splitlines()[1] == "ZeroDivisionError: by zero"
    assert "`swink stumble` belongs to acme-hello 1.0." in done.stderr
    assert "Traceback" not in done.stderr


def test_swinks_own_commands_cannot_be_replaced(extended: Any) -> None:
    done = extended("ask", "-m", "echo/echo", "Hi")

    assert (done.returncode, done.stdout, done.imported) == (0, "Hi\n", False)


def test_a_misspelt_command_of_another_distribution_is_suggested(extended: Any) -> None:
    done = extended("helo")

    assert done.returncode == 2
    assert "No such command 'helo'. Did you mean 'hello'?" in done.stderr


def test_an_unknown_command_is_a_question(extended: Any) -> None:
    assert extended("zymurgy", SWINK_MODEL="echo/echo").stdout == "zymurgy\n"
    done = extended("--", "zymurgy")
    assert done.returncode == 2
    assert "`swink --help` lists the installed commands" in done.stderr
    assert "pip" not in done.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("swink he", ["hello"]),
        ("swink ra", ["raises"]),
        ("swink as", ["ask"]),
        ("swink raises x", []),
        ("swink twice x", []),
    ],
)
def test_completing_a_command_imports_none_and_shows_no_fault(
    extended: Any, words: str, expected: list[str]
) -> None:
    last = str(len(words.split()) - 1)
    done = extended(_SWINK_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=last)

    assert [line.partition(",")[2] for line in done.stdout.splitlines() if line] == expected
    assert (done.imported, done.stderr) == (False, "")


# -- without them --------------------------------------------------------------------------------

ALONE = """
import sys
from importlib import metadata

metadata.distributions = lambda: []
from swink_cli.main import main

sys.exit(main(sys.argv[1:]))
"""


def alone(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs `swink` as where no distribution adds a command."""
    command = [sys.executable, "-c", ALONE, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=30
    )


@pytest.mark.parametrize(("name", "distribution"), ELSEWHERE.items())
def test_a_command_of_ours_that_is_not_installed_says_what_brings_it(
    swink_environment: dict[str, str], name: str, distribution: str
) -> None:
    done = alone(swink_environment, name, "acme; rm -rf /")

    assert done.returncode == 2
    assert f"No such command {name!r}." in done.stderr
    assert done.stderr.endswith(f"pip install {distribution}\n")


@pytest.mark.parametrize(("name", "distribution"), ELSEWHERE.items())
def test_the_named_distribution_provides_the_command(name: str, distribution: str) -> None:
    points = metadata.distribution(distribution).entry_points
    assert name in {point.name for point in points.select(group="swink.commands")}


def test_the_help_has_no_heading_without_commands_below_it(
    swink_environment: dict[str, str],
) -> None:
    done = alone(swink_environment, "--help")

    assert done.returncode == 0
    assert [name for name in COMMANDS if f"  {name}  " not in done.stdout] == []
    assert "other distributions" not in done.stdout

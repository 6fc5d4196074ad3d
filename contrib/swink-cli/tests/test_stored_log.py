"""`swink log` reads the calls that an earlier version kept, once they are converted.

Commit 390bb376 wrote `stored/calls`, when messages and events were classes of attrs.
"""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from swink_cli.exits import EXIT_USAGE
from swink_cli.main import main
from swink_recorder.convert import convert
from swink_recorder.convert import main as convert_command

CALLS = Path(__file__).parent / "stored" / "calls"

Log = Callable[..., str]


@pytest.fixture
def log(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Log:
    """Runs `swink log` on a copy of the calls and returns what it prints."""
    monkeypatch.setenv("SWINK_RECORD", "off")
    store = shutil.copytree(CALLS, tmp_path / "calls")
    assert [*convert(store)]

    def log(*arguments: str) -> str:
        assert main(["log", "--store", str(store), *arguments]) == 0
        return capsys.readouterr().out

    return log


def test_calls_of_an_earlier_version_are_listed(log: Log) -> None:
    rows = json.loads(log("list", "--json"))
    names = ("model", "outcome", "input", "output")
    assert [tuple(row.get(name) for name in names) for row in rows] == [
        ("echo/echo", "done", 5, 5),
        ("echo/fail-auth", "auth", None, None),
        ("anthropic/claude-haiku-4-5", "done", 9, 7),
        ("openai/gpt-5.4-mini", "done", 20, 3),
    ]


def test_their_costs_are_summed_up(log: Log) -> None:
    total = log("costs").splitlines()[-1]
    assert total.split() == ["total", "4", "34", "15", "$0.000073", "(1", "of", "unknown", "cost)"]


def test_their_words_are_found(log: Log) -> None:
    assert "d0f849130252" in log("search", "rains")


# (a call, what it shows)
SHOWN = [
    ("d0f849130252", ["What is the weather in Oslo?", "It rains.", "$0.000029"]),
    ("a91e3d48e540", ["weather", "Oslo", "$0.000044"]),
    ("ac0354643b12", ["Why is the sky blue?", "9 events"]),
    ("7ecb4ed99fa3", ["to fail: auth"]),
]


@pytest.mark.parametrize(("call", "shown"), SHOWN)
def test_a_call_of_an_earlier_version_is_shown_whole(call: str, shown: list[str], log: Log) -> None:
    page = log("show", call)
    assert [text for text in shown if text not in page] == []


def test_an_answer_of_an_earlier_version_is_played_back(log: Log) -> None:
    assert log("replay", "d0f849130252").startswith("It rains.")


def test_the_printed_command_converts_a_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = shutil.copytree(CALLS, tmp_path / "my calls")
    show = ["log", "--store", str(store), "show", "d0f849130252"]

    assert main(show) == EXIT_USAGE
    _, printed = capsys.readouterr().err.split("Convert it: ")
    python, *module, path = shlex.split(printed)
    assert [python, *module] == ["python", "-m", "swink_recorder.convert"]
    assert convert_command([path]) == 0
    assert main(show) == 0

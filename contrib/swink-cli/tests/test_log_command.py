"""`swink log`: recorded calls are listed, searched, shown, replayed, exported and deleted."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import define

import swink_core as swink
from swink_cli.main import main
from swink_recorder.cassette import Cassette
from swink_recorder.recorder import Recorder
from swink_recorder.recording import Recording
from swink_recorder.replay import ReplayServer
from swink_test_helpers.installed import LINES_PROVIDER, catalogue, install, record


@define
class Shown:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Shown]

ANSWER = [{"say": "Because "}, {"say": "of\x1b[31m Rayleigh."}, {"stop": "stop", "said": 3}]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the provider `lines` is installed, and two calls were recorded, one of which failed."""
    site = install(
        tmp_path_factory.mktemp("site"),
        "swink-provider-lines",
        {"swink.providers": {"lines": "lines_provider:LinesProvider"}},
        {
            "lines_provider/__init__.py": LINES_PROVIDER,
            "lines_provider/models.toml": catalogue("lines"),
        },
    )
    record(site / "answer", "lines", ANSWER, 0.3)
    sys.path.insert(0, str(site))
    try:
        asyncio.run(_fill(site))
    finally:
        sys.path.remove(str(site))
    return site


async def _fill(site: Path) -> None:
    async with ReplayServer() as server:
        url = server.add("case", Recording.load(site / "answer"))
        for name in ("calls", "calls.sqlite"):
            recorder = Recorder(site / name)
            async with swink.Client(plugins=[recorder]) as client:
                given = {"base_url": url, "api_key": "key-0123456789"}
                await client.complete("lines/large", "Why is the sky blue?", **given)
                with pytest.raises(swink.StreamError):
                    await client.complete("echo/fail-auth", "Who? " * 30)
            await recorder.aclose()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs a command line in this process, with nothing recorded that it does not name."""
    monkeypatch.setenv("SWINK_RECORD", "off")

    def run(*arguments: str) -> Shown:
        capsys.readouterr()
        return Shown(main(arguments), *capsys.readouterr())

    return run


@pytest.fixture(params=["calls", "calls.sqlite"])
def log(
    request: pytest.FixtureRequest, run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    monkeypatch.syspath_prepend(str(site))
    return lambda *arguments: run("log", "--store", str(site / request.param), *arguments)


def ids(log: Run) -> list[str]:
    return [row["id"] for row in json.loads(log("list", "--json").stdout)]


def test_calls_are_listed_the_newest_first_and_found_by_their_words(log: Run) -> None:
    done = log("list")
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 3)
    assert re.match(r"[0-9a-f]{12}  \d{4}-\d\d-\d\d \d\d:\d\d  echo/fail-auth  auth ", lines[1])
    assert lines[2].endswith("Why is the sky blue?")
    found = json.loads(log("search", "rayleigh", "--json").stdout)
    assert [row["model"] for row in found] == ["lines/large"]
    assert log("search", "nowhere").stdout == "No call contains these words.\n"
    assert len(json.loads(log("list", "-n", "1", "--json").stdout)) == 1
    assert len(json.loads(log("-n", "1", "list", "--json").stdout)) == 1
    assert log("-n", "1").stdout.splitlines() == lines[:2]
    whole = log("list", "--json").stdout
    assert whole == log("--json").stdout == log("--json", "list").stdout


def test_a_call_is_shown_replayed_and_exported(log: Run, tmp_path: Path) -> None:
    new, old = ids(log)
    shown = log("show", old[:5]).stdout
    assert "HTTP 200, " in shown
    assert r"Because of\x1b[31m Rayleigh." in shown
    assert "auth: " in log("show").stdout
    document = json.loads(log("show", old, "--json").stdout)
    assert document["attempts"][0]["legs"][0]["response"]["reads"]

    assert log("replay", old, "--fast").stdout.endswith("Rayleigh.\n")
    assert "did not answer over HTTP" in log("replay", new).stderr

    assert log("export", old, "--output", str(tmp_path / "case")).returncode == 0
    assert Recording.load(tmp_path / "case").model == "large"
    assert log("export", old, "--output", str(tmp_path / "case.json")).returncode == 0
    with Cassette(tmp_path / "case.json"):
        pass
    again = log("export", old, "--output", str(tmp_path / "case.json"))
    assert (again.returncode, "pass --force" in again.stderr) == (2, True)


def test_impossible_requests_are_reported(log: Run, run: Run, tmp_path: Path) -> None:
    for arguments in (["show", "zzz"], ["replay", "zzz"], ["delete", "zzz"]):
        done = log(*arguments)
        assert (done.returncode, "`swink log list` shows" in done.stderr) == (2, True)
    nothing = run("log", "list")
    assert (nothing.returncode, "SWINK_RECORD is off" in nothing.stderr) == (2, True)
    absent = run("log", "--store", str(tmp_path / "none.db"), "list")
    assert (absent.returncode, "there is no" in absent.stderr) == (2, True)
    (tmp_path / "plain.txt").write_text("no calls")
    plain = run("log", "--store", str(tmp_path / "plain.txt"), "list")
    assert (plain.returncode, "is a file that contains no calls" in plain.stderr) == (2, True)
    assert log("delete").returncode == 2
    numbers = ["list -n -1", "-n 0", "conversations -n -1", "search x -n -1", f"list -n {10**20}"]
    for words in [*numbers, "costs --days 0", f"costs --days {10**12}"]:
        refused = log(*words.split())
        assert (refused.returncode, "is not in the range" in refused.stderr) == (2, True)
    (tmp_path / "broken.db").write_bytes(b"no database " * 100)
    broken = run("log", "--store", str(tmp_path / "broken.db"), "list")
    assert (broken.returncode, "file is not a database" in broken.stderr) == (2, True)
    assert "Restore the file" in broken.stderr


@pytest.mark.parametrize("columns", [40, 80])
def test_a_list_fits_a_terminal(columns: int, site: Path, swink_environment: Any) -> None:
    output = _on_a_terminal(
        columns, swink_environment, "log", "--store", str(site / "calls"), "list"
    )
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in output.splitlines()]
    assert max(map(len, lines)) <= columns
    assert "sky" in output


def _on_a_terminal(columns: int, environment: dict[str, str], *arguments: str) -> str:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    command = [sys.executable, "-m", "swink_cli", *arguments]
    environment = {k: v for k, v in environment.items() if k != "COLUMNS"}
    with subprocess.Popen(command, env=environment, stdout=theirs, stdin=theirs) as process:
        os.close(theirs)
        output = b""
        try:
            while data := os.read(ours, 65536):
                output += data
        except OSError:  # how Linux says that the other side is closed
            pass
        process.wait()
    os.close(ours)
    return output.decode()


@pytest.mark.parametrize("name", ["calls", "calls.db"])
def test_an_empty_id_or_store_is_refused(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWINK_RECORD", str(tmp_path / name))
    run("ask", "-m", "echo/echo", "one")
    target = str(tmp_path / "case.json")
    for words in (["delete", ""], ["show", ""], ["replay", ""], ["export", "", "--output", target]):
        done = run("log", *words)
        assert (done.returncode, "the id is empty" in done.stderr) == (2, True), words
    done = run("log", "--store", "", "delete", "--all")
    assert (done.returncode, "--store is empty" in done.stderr) == (2, True)
    assert len(json.loads(run("log", "list", "--json").stdout)) == 1


@pytest.mark.parametrize("name", ["calls", "calls.db"])
def test_deleted_calls_are_gone(
    name: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWINK_RECORD", str(tmp_path / name))
    for word in ("one", "two", "three"):
        run("ask", "-m", "echo/echo", word)
    first, *_ = json.loads(run("log", "list", "--json").stdout)
    assert first["answer"] == "three"
    assert "deleted 1 call" in run("log", "delete", first["id"]).stderr
    left = json.loads(run("log", "list", "--json").stdout)
    assert [row["answer"] for row in left] == ["two", "one"]
    assert "deleted 2 calls" in run("log", "delete", "--all").stderr
    assert json.loads(run("log", "search", "one", "--json").stdout) == []

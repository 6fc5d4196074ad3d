"""The command line, the progress that it shows, and the report at its end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from swink_batch import Answer, Failed, Tally
from swink_batch.progress import CLEAR, Progress, duration, told
from swink_batch.report import chart, data, lines
from swink_testing.command_line import swink_command


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\nnot json')
    return path


def test_a_file_is_answered_and_a_second_run_sends_nothing(
    swink: Any, rows: Path, tmp_path: Path
) -> None:
    output, report = tmp_path / "out.jsonl", tmp_path / "report.json"
    asked = ("batch", str(rows), "-o", str(output), "-m", "echo/echo,echo/think")
    done = swink(*asked, "--prompt", "Say {text}", "--order", "input", "--report", str(report))
    assert done.returncode == 1  # for the row that is none
    assert "2 answered, 1 failed" in done.stderr
    found = [json.loads(line) for line in output.read_bytes().splitlines()]
    assert [line.get("text") for line in found] == ["Say one", "Say two", None]
    assert "line 3 is not JSON" in found[2]["error"]["message"]
    assert json.loads(report.read_bytes())["kinds"] == {"bad_row": 1}
    again = swink(*asked, "--prompt", "Say {text}", "--resume")
    assert "0 answered, 0 failed" in again.stderr
    assert "2 answered and 1 failed in earlier runs" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--report", "x.pdf"], "x.pdf is not a supported form of report"),
        (["--shard", "3/2"], "shard 3 of 2 does not exist"),
        (["--shard", "half"], "'half' is not of the form I/N"),
        (["--max-cost", "-1"], "-1.0 is not in the range"),
        (["--rpm", "nan"], "rpm is nan"),
        (["--prompt", "{"], "the prompt is not a valid template"),
        (["--limits", "redis://127.0.0.1:9"], "Limits cannot be shared"),
        (["-o", "-"], "answers cannot be written to standard output"),
        (["--cancel"], "--cancel applies only to submitted batches"),
        (["--id", "nope"], "the row has no id field 'nope'; it has id, text"),
        (["--limits", "foo"], "limits cannot be shared at 'foo'"),
    ],
)
def test_mistakes_are_reported_before_any_request(
    swink: Any, rows: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    output = tmp_path / "out.jsonl"
    done = swink("batch", str(rows), "-o", str(output), "-m", "echo/echo", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert not [*tmp_path.glob("out.jsonl*")]


def test_a_likely_mistake_gets_a_warning(swink: Any, rows: Path, tmp_path: Path) -> None:
    output, none = str(tmp_path / "out.jsonl"), tmp_path / "none.jsonl"
    none.write_text("")
    same = swink("batch", str(rows), "-o", output, "-m", "echo/echo", "--prompt", "Say {{text}}")
    assert "the prompt contains no field of a row, such as {text}: all rows" in same.stderr
    empty = swink("batch", str(none), "-o", f"{output}.2", "-m", "echo/echo", "--prompt", "{text}")
    assert (empty.returncode, "there were no rows" in empty.stderr) == (0, True)
    assert "contains no field" not in empty.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no file that is full")
def test_an_output_on_a_full_disk_is_named(swink: Any, rows: Path, tmp_path: Path) -> None:
    journal = ("--journal", str(tmp_path / "journal"))
    done = swink(
        "batch", str(rows), "-o", "/dev/full", "-m", "echo/echo", "--prompt", "x", *journal
    )
    assert done.returncode == 1
    assert (
        "/dev/full: No space left on device\nCheck that the path is valid, that the disk has room"
        in done.stderr
    )


def test_a_prompt_in_a_file_begins_behind_a_mark_of_byte_order(
    swink: Any, rows: Path, tmp_path: Path
) -> None:
    output, prompt = tmp_path / "out.jsonl", tmp_path / "prompt.txt"
    prompt.write_text("Say {text}", "utf-8-sig")
    swink("batch", str(rows), "-o", str(output), "-m", "echo/echo", "--prompt", f"@{prompt}")
    said = {line.get("text") for line in map(json.loads, output.read_bytes().splitlines())}
    assert said == {"Say one", "Say two", None}


def test_exit_codes_tell_how_a_run_ended(swink: Any, tmp_path: Path) -> None:
    good, bad = '{"prompt": "Hi"}\n', '{"text": "Hi"}\n'
    for text, model, code in (
        (good, "echo", 0),
        (good, "echo", 0),  # of the earlier run
        (good + bad, "echo", 1),
        (good + bad, "echo", 1),
        (bad, "echo", 2),  # its first row cannot be asked
        (good, "think", 2),  # another job's journal
        (20 * good, "fail-auth", 3),
        (20 * good, "fail-auth", 3),  # which asks them again
    ):
        (tmp_path / "rows.jsonl").write_text(text)
        output = tmp_path / f"{model == 'fail-auth'}.jsonl"
        asked = ("batch", str(tmp_path / "rows.jsonl"), "-o", str(output), "-m", f"echo/{model}")
        assert swink(*asked).returncode == code, (text, model)


@pytest.mark.skipif(os.name == "nt", reason="signals are Unix's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_a_signal_ends_tells_so_and_is_gone_on_with(
    number: signal.Signals, swink_environment: dict[str, str], swink: Any, tmp_path: Path
) -> None:
    rows, output = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows.write_text('{"prompt": "a few words that take their time"}\n' * 3)
    asked = ("batch", str(rows), "-o", str(output), "-m", "echo/slow", "--concurrency", "1")
    running = subprocess.Popen(
        swink_command(*asked), env=swink_environment, stderr=subprocess.PIPE, text=True
    )
    while not output.exists() or not output.read_bytes():
        time.sleep(0.01)
    running.send_signal(number)
    told = running.communicate(timeout=30)[1]
    assert "waiting for calls in progress" in told
    assert "stopped: interrupted" in told
    assert running.returncode == 130
    answered = len(output.read_bytes().splitlines())
    again = swink(*asked)
    assert (again.returncode, answered) in ((0, 1), (0, 2))
    assert f"{answered} answered and 0 failed in earlier runs" in again.stderr


@pytest.mark.parametrize("option", ["--output", "--journal", "--report"])
def test_a_place_where_no_file_can_be_is_named(
    option: str, swink: Any, rows: Path, tmp_path: Path
) -> None:
    places = {"--output": "out.jsonl", "--journal": "journal", "--report": "report.json"}
    (tmp_path / "in the way").write_text("")
    places[option] = f"in the way/{places[option]}"
    given = [word for name, place in places.items() for word in (name, str(tmp_path / place))]
    done = swink("batch", str(rows), "-m", "echo/echo", "--prompt", "{text}", *given)
    assert done.returncode == 1
    assert "Error: A file cannot be used" in done.stderr
    assert str(tmp_path / "in the way") in done.stderr
    assert "bug" not in done.stderr


@pytest.mark.parametrize("option", ["--output", "--report"])
def test_a_file_in_a_missing_folder_is_reported_before_any_request(
    option: str, swink: Any, rows: Path, tmp_path: Path
) -> None:
    places = {"--output": tmp_path / "out.jsonl", option: tmp_path / "nowhere" / "report.json"}
    given = [word for name, place in places.items() for word in (name, str(place))]
    done = swink("batch", str(rows), "-m", "echo/echo", "--prompt", "{text}", *given)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: A file cannot be used",
        f"{places[option]}: the folder {tmp_path / 'nowhere'} does not exist",
        "Create it, or pass another file.",
    ]
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".jsonl"] == ["rows.jsonl"]


def tally() -> Tally:
    state = Tally(100.0, total=50)
    for number in range(20):
        usage = {"input": 10, "total": 15}
        answer = Answer(id="x", model="m", seconds=0.5 + number / 10, usage=usage, cost=0.25)
        state.add(answer, 100.0 + number)
    state.add(Answer(id="y", error=Failed("timeout", "late"), attempts=3), 121.0)
    return state


def test_progress_tells_rate_tokens_cost_time_left_and_failures() -> None:
    assert told(tally()) == (
        "21 of 50 rows · 1.0/s · 300 tokens · $5.00 · 30.5 s left · 1 failed (1 timeout) · "
        "0 under way"
    )


@pytest.mark.parametrize(
    ("rate", "said"), [(23.04, "rate limit: 23.0 calls/s"), (0.0, "rate limit: waiting")]
)
def test_progress_tells_that_rate_limits_restrict_the_run(rate: float, said: str) -> None:
    state = tally()
    state.held = lambda: rate
    assert f" left · {said} · 1 failed" in told(state)


def test_a_terminal_has_one_line_and_a_log_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for is_terminal, term, written in ((True, "xterm", 2), (False, "xterm", 1), (True, "dumb", 1)):
        monkeypatch.setenv("TERM", term)
        times = iter([0.0, 0.1, 0.3, 0.4, 11.0])
        file = StringIO()
        file.isatty = lambda is_terminal=is_terminal: is_terminal  # type: ignore[method-assign]
        progress = Progress(file, times.__next__)
        for _ in range(4):
            progress(tally())
        assert file.getvalue().count("21 of 50") == written
        drawn = file.getvalue().split(CLEAR)[1:]
        assert bool(drawn) is (written == 2)
        assert all(len(line) <= 38 for line in drawn)  # leaves room for the echo of ^C


def test_the_report_has_latency_tokens_cost_and_kinds() -> None:
    report = data(tally())
    assert report["kinds"] == {"timeout": 1}
    assert report["retries"] == 2
    assert report["latency"]["p50"] == pytest.approx(1.4, rel=0.1)
    text = "\n".join(lines(tally()))
    for part in ("20 answered, 1 failed in 21.0 s", "300 total", "cost: $5.00", "1 timeout: late"):
        assert part in text


def test_the_report_tells_the_first_failure_of_a_kind_as_one_of_them() -> None:
    state = tally()
    assert "  1 timeout: late" in lines(state)
    for number in range(1_500):
        state.add(Answer(id=number, error=Failed("bad_row", f"no {number}")), 122.0)
    assert "  1,500 bad_row, the first: no 0" in lines(state)


@pytest.mark.parametrize(
    ("dollars", "said"),
    [(0.0, "$0"), (4.2e-05, "$0.000042"), (0.5, "$0.50"), (1234.5, "$1,234.50")],
)
def test_money_is_formatted_as_elsewhere(dollars: float, said: str) -> None:
    state = Tally(0.0, now=1.0)
    state.add(Answer(id="x", usage={"total": 2}, cost=dollars), 1.0)
    assert f"cost: {said}" in lines(state)
    assert f" · {said} · " in told(state)


def test_the_chart_is_svg() -> None:
    for state in (tally(), Tally(0.0)):
        root = ElementTree.fromstring(chart(state))
        assert root.tag.endswith("svg")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "250 ms"), (0.9996, "1.0 s"), (5, "5.0 s"), (90, "2 min"), (3600 * 26, "26 h 0 min")],
)
def test_durations_are_formatted_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text

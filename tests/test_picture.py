"""The pictures of the documentation, compared with what they show."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import draw_cut_stream
from draw_demo import PICTURE

from swink_testing.command_line import clean_environment

HEADINGS = "PROVIDER WIRE FORMAT EVENTS FIRST TOKEN IN/OUT STOP COST"


def shown_in(picture: str) -> list[str]:
    """Return the lines of text in a picture, from the top."""
    lines: dict[float, str] = {}
    for y, text in re.findall(
        r'<text class="demo-r\d+" x="[\d.]+" y="([\d.]+)"[^>]*>(.*?)<', picture
    ):
        lines[float(y)] = lines.get(float(y), "") + " " + html.unescape(text).replace("\xa0", " ")
    return [lines[y] for y in sorted(lines)]


def cells(row: str) -> list[str]:
    """Return the cells of a row of the table, without the time of the first token."""
    return re.sub(r" [\d.,]+ (ms|s)\b", "", row).split()


def test_the_picture_shows_the_rows_of_a_run_of_the_command(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "swink_cli", "demo", "--speed", "20"],
        env=clean_environment(tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    printed = done.stdout.splitlines()
    [start] = [number for number, line in enumerate(printed) if line.split() == HEADINGS.split()]
    rows = [cells(line) for line in printed[start + 1 :]]

    shown = shown_in(PICTURE.read_text("utf-8"))
    first = next(number for number, line in enumerate(shown) if cells(line)[:1] == rows[0][:1])
    assert shown[0].split() == ["$", "swink", "demo"]
    assert sorted(" ".join(shown[1:first]).split()) == sorted(HEADINGS.split())
    assert [cells(line) for line in shown[first : first + len(rows)]] == rows, "run `make picture`"


def test_the_picture_of_a_cut_stream_shows_the_results_of_the_scoreboard() -> None:
    assert draw_cut_stream.PICTURE.read_text("utf-8") == draw_cut_stream.picture()
    shown = draw_cut_stream.results()
    assert shown["swink"] == "NetworkError"
    assert set(shown.values()) == {"NetworkError", "MidStreamFallbackError", "silent"}

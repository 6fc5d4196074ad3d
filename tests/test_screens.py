"""What the commands that other distributions add look like on a terminal, and in a pipe.

Those that are always there have their screens beside `contrib/swink-cli/tests`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swink_testing.screens import WIDTHS, check_screen

SCREENS = Path(__file__).parent / "screens"
NOBODY = "http://127.0.0.1:9/events"

LINES = [
    "--help",
    'batch rows.csv -o out.jsonl -m echo/echo --prompt "Say {text}"',
    'batch rows.csv -o out.jsonl -m echo/echo --prompt "Say {word}"',
    "check --help",
    "gateway --port 99999",
    "gateway --route quick",
    f"tail {NOBODY}",
    f"top {NOBODY}",
    "new Acme!",
]

VARYING = [
    (r"in [\d.]+ m?s \([\d.]+\s+a\s+second\)", "in no time"),
    (r"(?m)^answers came:(?s:.*?)(?=^\[)", "(a chart of how long they took)\n"),
]


@pytest.mark.parametrize("columns", WIDTHS)
def test_screens(swink_environment: dict[str, str], tmp_path: Path, columns: int) -> None:
    (tmp_path / "rows.csv").write_text("text\nGood.\nBad.\n")
    environment = {**swink_environment, "SWINK_PLUGINS": "echo", "XDG_STATE_HOME": "state"}
    check_screen(LINES, columns, SCREENS, tmp_path, environment, VARYING)

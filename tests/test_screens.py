"""The output of commands of other distributions on a terminal, and in a pipe.

Those that are always there have their screens beside `contrib/swink-cli/tests`.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from swink_test_helpers.screens import INTERRUPT, WIDTHS, Typed, check_screen
from swink_testing.command_line import clean_environment, swink_command

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
    "check echo",
    "gateway --check team.toml",
    Typed("gateway --port 0", [("Ctrl-C stops", INTERRUPT)]),
]

TEAM = """
[keys.olga]
key = "${OLGAS_KEY}"
operator = true
dollars_per_day = 5

[routes.quick]
tiers = ["echo/echo", "echo/think"]
"""

KEY = "gateway-key-of-olga"

URL = "\n?".join([*map(re.escape, "http://127.0.0.1:"), *5 * [r"\d"]])
"""An address with a free port, as it breaks at any width."""

VARYING = [
    (rf"(--gateway|serving 1 provider at)\s{URL}", r"\1 (an address)"),
    (r"12:34:\d\d [0-9a-f]{6} ", "12:34:56 012345 "),
    (r"(?m) +\d+ +\$0(?= +stop|$)", "  99  $0"),
    (r"\b\d\.\ds\b", "0.0s"),
    (r"(olga +)\d( +)\d\b", r"\g<1>2\g<2>4"),
    (r"in [\d.]+ m?s \([\d.]+\s+a\s+second\)", "in no time"),
    (r"(?m)^answers came:(?s:.*?)(?=^\[)", "(a chart of how long they took)\n"),
]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway of which a call has failed, and one was answered."""
    folder = tmp_path_factory.mktemp("team")
    (folder / "team.toml").write_text(TEAM)
    environment = {**clean_environment(folder), "SWINK_PLUGINS": "echo", "OLGAS_KEY": KEY}
    command = swink_command("gateway", "--port", "0", "--config", str(folder / "team.toml"))
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as gateway:
        assert gateway.stderr is not None
        url = gateway.stderr.readline().split()[-1]
        for model in ("echo/fail-auth", "quick"):
            body = {"model": model, "messages": [{"role": "user", "content": "High tide"}]}
            headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
            asked = Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), headers)
            try:
                urlopen(asked).close()
            except HTTPError as error:
                error.close()
        yield url
        gateway.terminate()


@pytest.mark.parametrize("columns", WIDTHS)
def test_screens(
    swink_environment: dict[str, str], tmp_path: Path, columns: int, team: str
) -> None:
    (tmp_path / "rows.csv").write_text("text\nGood.\nBad.\n")
    (tmp_path / "team.toml").write_text(TEAM)
    environment = {**swink_environment, "SWINK_PLUGINS": "echo", "XDG_STATE_HOME": "state"}
    following = [  # before `gateway`, which takes its key out of the environment
        Typed(f"tail --gateway {team}", [("tokens, $0", INTERRUPT)]),
        f"top --once --gateway {team}",
    ]
    if columns:
        following.append(
            Typed(f"top --gateway {team}", [("olga", ""), ("$0 ", ""), ("olga", INTERRUPT)])
        )
    environment |= {"OLGAS_KEY": KEY, "SWINK_GATEWAY_KEY": KEY}
    check_screen([*following, *LINES], columns, SCREENS, tmp_path, environment, VARYING)

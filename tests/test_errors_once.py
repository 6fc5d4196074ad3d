"""The commands report each error once, whatever else logs it."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swink_test_helpers.forked_commands import swink  # noqa: F401

AUTH = "as requested: auth"
OVERLOADED = "Error: Echo is overloaded"  # each attempt has a line with the message
ONE_ROW = "1 auth: Echo does not accept the credentials"  # for all rows of which it is true
UNKNOWN = 'no provider "nosuch"'
NO_KEY = "OPENAI_API_KEY is not set"

# the command, its standard input, and the words of its error
COMMANDS: list[tuple[str, list[str], str, str]] = [
    ("ask", ["ask", "-n", "-m", "echo/fail-auth", "Hi"], "", AUTH),
    ("ask in plain text", ["ask", "-n", "--plain", "-m", "echo/fail-auth", "Hi"], "", AUTH),
    ("ask and extract", ["ask", "-n", "-x", "-m", "echo/fail-auth", "Hi"], "", AUTH),
    ("ask several", ["ask", "-n", "-m", "echo/fail-auth", "-m", "echo/echo", "Hi"], "", AUTH),
    (
        "ask after retries",
        ["ask", "-n", "-m", "echo/fail-overloaded", "-o", "retry.base=0", "Hi"],
        "",
        OVERLOADED,
    ),
    (
        "ask with tools",
        ["ask", "-n", "-y", "--functions", "def f():\n  'F.'", "-m", "echo/fail-auth", "Hi"],
        "",
        AUTH,
    ),
    ("ask an unknown provider", ["ask", "-n", "-m", "nosuch/x", "Hi"], "", UNKNOWN),
    ("ask without a key", ["ask", "-n", "-m", "openai/gpt-5.4-mini", "Hi"], "", NO_KEY),
    (
        "ask at a wrong address",
        ["ask", "-n", "-m", "openai/x", "--base-url", "nonsense", "--api-key", "k", "Hi"],
        "",
        "base_url='nonsense'",
    ),
    ("ask about a missing file", ["ask", "-n", "-m", "echo/echo", "-a", "/no/file", "Hi"], "",
     "/no/file"),
    ("ask with a wrong option", ["ask", "-m", "echo/echo", "-o", "nosuch=1", "Hi"], "",
     "no option 'nosuch'"),
    ("ask for JSON", ["ask", "-n", "-m", "echo/echo", "--schema", "{bad", "Hi"], "", "--schema is"),
    ("chat", ["chat", "-n", "-m", "echo/fail-auth"], "Hi\n", AUTH),
    ("chat with an unknown provider", ["chat", "-n", "-m", "nosuch/x"], "Hi\n", UNKNOWN),
    ("chat with an unknown command", ["chat", "-n", "-m", "echo/echo"], "/nosuch\n",
     "no command /nosuch"),
    ("events of an unknown provider", ["events", "-m", "nosuch/x", "Hi"], "", UNKNOWN),
    ("record", ["record", "-m", "echo/fail-auth", "--output", "recording", "Hi"], "", AUTH),
    ("replay", ["replay", "/no/recording"], "", "/no/recording"),
    ("log", ["log", "--store", "/no/store", "show"], "", "/no/store"),
    ("keys", ["keys", "set", "nosuch"], "", UNKNOWN),
    ("models", ["models", "nosuch"], "", UNKNOWN),
    ("providers", ["providers", "nosuch"], "", UNKNOWN),
    ("an unknown profile", ["--profile", "nosuch", "ask", "-m", "echo/echo", "Hi"], "",
     "unknown profile 'nosuch'"),
    ("an unknown option", ["ask", "--nosuch"], "", "No such option"),
    ("batch", ["batch", "-m", "echo/fail-auth", "-o", "answers.jsonl", "rows.jsonl"], "",
     ONE_ROW),
    ("batch of an unknown provider", ["batch", "-m", "nosuch/x", "-o", "a.jsonl", "rows.jsonl"],
     "", UNKNOWN),
    ("batch of a missing file", ["batch", "-m", "echo/echo", "-o", "a.jsonl", "no-rows.jsonl"], "",
     "no-rows.jsonl"),
    ("gateway without its file", ["gateway", "--config", "/no/file"], "", "/no/file"),
    ("gateway at a port in use", ["gateway", "--port", "{port}", "--route", "a=echo/echo"], "",
     "{port}"),
    ("gateway of an unknown provider", ["gateway", "--port", "0", "--route", "a=nosuch/x"], "",
     UNKNOWN),
]  # fmt: skip

MODES: dict[str, tuple[list[str], dict[str, str]]] = {
    "": ([], {}),
    "debug": (["--debug"], {}),
    "observed": ([], {"SWINK_LOG": "logfmt", "SWINK_RECORD": "calls"}),
    "observed in debug": (["--debug"], {"SWINK_LOG": "json", "SWINK_LOG_LEVEL": "WARNING"}),
}


@pytest.fixture(scope="module")
def taken_port() -> Iterator[str]:
    """A port of the loopback interface at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield str(listening.getsockname()[1])


def reports(stderr: str) -> str:
    """Return standard error without tracebacks, and without what is logged for debugging."""
    traceback = r"Traceback.*\n(?:[ \t].*\n)*"
    for_debugging = rf"(?m)^DEBUG .*\n(?:{traceback}.*\n(?:\n(?:The above|During).*\n\n)?)+"
    trace = rf"(?m)^{traceback}(?:.*\n\n(?:The above|During).*\n)?"
    shown = re.sub(trace, "", re.sub(for_debugging, "", stderr))
    return re.sub(r"(?m)^(DEBUG|INFO) .*\n", "", shown)


# the log and the observers see the errors of calls
RUNS = {
    f"{name} {mode}".strip(): (*row, *MODES[mode])
    for name, *row in COMMANDS
    for mode in MODES
    if row[2] in (AUTH, OVERLOADED, ONE_ROW) or mode in ("", "observed in debug")
}


@pytest.mark.parametrize(
    ("arguments", "stdin", "words", "flags", "environment"), RUNS.values(), ids=RUNS
)
def test_an_error_is_reported_once(
    swink: Any,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    taken_port: str,
    arguments: list[str],
    stdin: str,
    words: str,
    flags: list[str],
    environment: dict[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.jsonl").write_text('{"prompt": "Hi"}\n')
    given = [argument.replace("{port}", taken_port) for argument in arguments]
    done = swink(*flags, *given, stdin=stdin, **environment)
    assert done.returncode != 0
    assert reports(done.stderr).count(words.replace("{port}", taken_port)) == 1, done.stderr


@pytest.mark.parametrize(("flags", "environment"), MODES.values(), ids=MODES)
def test_a_plugin_that_is_left_out_is_named_once(
    swink: Any,  # noqa: F811
    flags: list[str],
    environment: dict[str, str],
) -> None:
    environment = {**environment, "SWINK_LOG": "xml"}
    done = swink(*flags, "ask", "-n", "-m", "echo/echo", "Hi", **environment)
    assert reports(done.stderr).count("'xml'") == 1

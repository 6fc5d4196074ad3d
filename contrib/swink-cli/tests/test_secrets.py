"""No secret is in a log, or in a file that others can read, whatever is done and fails."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from chat_service import ChatService, HTTPError

KEY = "sk-canary-0123456789abcdef"
HEADER = "canary-of-a-header"

# one process, so that it costs one start; nobody else's umask would let others in so far
PROGRAM = """
import io, json, os, sys
os.umask(0)
from swink_cli.main import main

for words, piped in json.loads(sys.argv[1]):
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(piped.encode())))
    print("ends with", main(["--debug", *words]))
"""

TOOL = "def look(city: str):\n    raise RuntimeError(f'no {city}')\n"


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_no_secret_is_in_a_log_or_a_file_of_others(
    swink_environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "look.py").write_text(TOOL)
    call = {"index": 0, "id": "c1", "function": {"name": "look", "arguments": '{"city": "Oslo"}'}}
    with ChatService(
        ["Kept."], ["Headed."], [{"tool_calls": [call]}], ["Sorry."],
        HTTPError(401, f"bad key {KEY}"), ["Chatted."], ["Recorded."],
    ) as service:  # fmt: skip
        given = ["-m", "openai/any", "-o", f"headers.X-Team={HEADER}", "--api-key", KEY]
        lines = [
            (["config", "set", "providers.openai.base_url", service.base_url], ""),
            (["config", "set", "mcp.tracker.env.TOKEN", KEY], ""),
            (["config", "set", "mcp.docs", f"https://docs.invalid/mcp?token={KEY}"], ""),
            (["config", "set", "providers.groq.base_url", f"http://me:{KEY}@groq.invalid"], ""),
            (["config", "show"], ""),
            (["keys", "set", "openai"], f"{KEY}\n"),
            (["--profile", "work", "keys", "set", "openai"], f"{KEY}\n"),
            (["keys", "list"], ""),
            (["ask", "-m", "openai/any", "Hi"], ""),
            (["ask", *given, f"Is {KEY} a key?"], ""),
            (["ask", *given, "-y", "--functions", "look.py", "Oslo?"], ""),
            (["ask", *given, "Hi"], ""),
            (["chat", *given], f"Is {KEY} a key?\n/save talk.json\n"),
            (["record", *given, "--output", "kept", "Hi"], ""),
            (["log", "list"], ""),
            (["log", "show", "--json"], ""),
            (["ask", *given, "-o", f"api_key={KEY}", "-s", "Be brief", "--save", "brief"], ""),
            (["template", "show", "brief"], ""),
            (["ask", *given, "--base-url", f"http://me:{KEY}@127.0.0.1:9", "Hi"], ""),
        ]
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(lines)],
            cwd=tmp_path,
            env=swink_environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    codes = [int(code) for code in re.findall(r"^ends with (\d)$", done.stdout, re.MULTILINE)]
    assert codes == [0] * 11 + [1] + [0] * 6 + [1], done.stdout + done.stderr
    told = done.stdout + done.stderr
    assert KEY not in told
    assert HEADER not in done.stderr

    made = {path for path in tmp_path.rglob("*") if path.is_file() and path.name != "look.py"}
    holding = {path.name for path in made if KEY.encode() in path.read_bytes()}
    # a conversation that a person saves has what they said
    assert holding == {"keys.toml", "config.toml", "talk.json"}
    kept = {path for path in made if path.parent.name != "kept"}
    assert {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in kept} == dict.fromkeys(
        ("calls.sqlite", "brief.toml", ".keys.toml.lock", ".config.toml.lock", *holding), "0o600"
    )
    folders = {path.parent for path in kept} - {tmp_path}
    assert {oct(stat.S_IMODE(path.stat().st_mode)) for path in folders} == {"0o700"}

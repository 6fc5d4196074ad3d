"""Print whether hostile answers reach the terminal raw, crash the command line, or never end.

    python -m lab.findings.command_line

Control sequences in every field, deeply nested arguments, and a model that calls tools for ever.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from lab.findings.terminal_display import terminal_output
from lab.findings.upstreams import chat_chunk, verdict
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.command_line import clean_environment, swink_command

ESCAPES = (
    "\x1b]0;title\x07\x1b[2J\x9b2J\x1b]52;c;eA==\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\u202e"
)
RAW = ("\x1b]0;title", "\x1b[2J", "\x1b]52;", "\x9b2J", "\u202e")
"""Control sequences that only an answer contains."""
FUNCTION = "def look(a: list) -> str:\n    'Look.'\n    return 'ok'\n"


def called(arguments: str, name: str = "look") -> dict[str, object]:
    """Return a frame that calls a tool."""
    call = {"index": 0, "id": "call_0", "function": {"name": name, "arguments": arguments}}
    return chat_chunk({"tool_calls": [call]})


def escaped() -> list[dict[str, Any]]:
    """Return an answer with control sequences in every field."""
    return [
        chat_chunk({"reasoning_content": f"Hm {ESCAPES}"}),
        chat_chunk({"content": f"Hello {ESCAPES}"}),
        called(json.dumps({"a": ESCAPES}), f"look{ESCAPES}"),
        {**chat_chunk({}, "stop"), "id": ESCAPES, "model": ESCAPES},
    ]


class HostileVendor(LoopbackServer):
    """Answers by the folder of the path, in the format of Chat Completions."""

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request."""
        kind, _, detail = exchange.path.strip("/").removesuffix("/chat/completions").partition("/")
        if kind == "error":
            error = {"message": f"Bad {ESCAPES}", "type": ESCAPES, "code": ESCAPES}
            await exchange.start(400, {"Content-Type": "application/json"})
            await exchange.write(json.dumps({"error": error}).encode())
            await exchange.end()
            return
        returned = any(each["role"] == "tool" for each in exchange.json["messages"])
        if kind == "escapes":
            frames = escaped()
        elif kind == "loop" or not returned:
            depth = int(detail or 0)
            nested = '{"a":' + "[" * (depth + 1) + "]" * (depth + 1) + "}"
            frames = [called(nested), chat_chunk({}, "tool_calls")]
        else:
            frames = [chat_chunk({"content": "Done."}), chat_chunk({}, "stop")]
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        for frame in frames:
            await exchange.write(b"data: " + json.dumps(frame).encode() + b"\n\n")
        await exchange.write(b"data: [DONE]\n\n")
        await exchange.end()


def checked(name: str, vendor: str, folder: Path, *arguments: str) -> None:
    """Run a command against a folder of the vendor, and judge its output."""
    environment = {
        **clean_environment(folder),
        "DEEPSEEK_API_KEY": "test",
        "DEEPSEEK_BASE_URL": vendor,
    }
    command = swink_command(arguments[0], "-m", "deepseek/deepseek-flash", *arguments[1:])
    output = terminal_output(command, environment).decode(errors="replace")
    raw = [repr(each) for each in RAW if each in output]
    crashed = "Traceback" in output or "This is a bug" in output
    detail = (f"raw {' '.join(raw)}" if raw else "") + (" crashed" if crashed else "")
    verdict(not raw and not crashed, name, detail)


def main() -> None:
    """Print one line for each command."""
    with HostileVendor() as vendor, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for command in ("ask", "events"):
            for kind in ("escapes", "error", "deep/340", "deep/900"):
                checked(f"{command}, {kind}", f"{vendor.url}/{kind}", folder, command, "Hi")
        run = ("ask", "--functions", FUNCTION, "-y")
        checked("ask with a tool, deep/340", f"{vendor.url}/deep/340", folder, *run, "Hi")
        checked("ask again after deep/340", f"{vendor.url}/deep/0", folder, "ask", "-c", "Again")
        few = ("--max-turns", "7")
        checked("endless calls of a tool", f"{vendor.url}/loop", folder, *run, *few, "Hi")


if __name__ == "__main__":
    main()

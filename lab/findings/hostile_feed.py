"""Print what a hostile feed does to `swink tail` and `swink top`.

    python -m lab.findings.hostile_feed

Control sequences, wrong types, broken JSON, and a redirection that must not carry the operator's
key to another address.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from lab.findings.command_line import ESCAPES, RAW
from lab.findings.upstreams import verdict
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.command_line import clean_environment, swink_command

KEY = "canary-operator-key-0123"
SECONDS = 5.0
TIME = "2026-01-01T00:00:00+00:00"

RECORDS: dict[str, list[tuple[str, Any]]] = {
    "escapes": [
        ("begin", {"time": TIME, "call": ESCAPES, "model": ESCAPES}),
        ("notice", {"time": TIME, "call": ESCAPES, "model": ESCAPES, "code": ESCAPES}),
        (
            "end",
            {"time": TIME, "call": ESCAPES, "model": ESCAPES, "stop": "error", "error": ESCAPES},
        ),
    ],
    "types": [("begin", {"time": 5, "call": 5, "model": []}), ("end", {"time": "x"})],
    "list": [("begin", [1, 2])],
    "missing": [("begin", {})],
    "huge": [("end", {"time": TIME, "call": "a", "model": "m", "output": 10**300, "cost": 1e308})],
}

BROKEN = {
    "damaged": b"event: begin\ndata: {oops\n\n",
    "deep": b"event: begin\ndata: " + b"[" * 100_000 + b"\n\n",
    "endless": b"event: begin\ndata: " + b"x" * 8_000_000,
}


class HostileFeed(LoopbackServer):
    """Sends what the folder of the path names, and remembers the keys that it got."""

    other = ""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request."""
        if authorization := exchange.headers.get("authorization"):
            self.keys.append(authorization)
        kind = exchange.path.strip("/").split("/")[0]
        if kind == "redirected":
            await exchange.start(302, {"Location": f"{self.other}/missing"})
            await exchange.end()
            return
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        if kind in BROKEN:
            await exchange.write(BROKEN[kind])
        for name, data in RECORDS.get(kind, []):
            await exchange.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
        await exchange.pause(1)
        await exchange.end()


def watched(command: list[str], environment: dict[str, str]) -> str:
    """Run a command in a terminal for a few seconds, and return its output."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, False)
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    output = b""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until and process.poll() is None:
        try:
            output += os.read(ours, 65536)
        except BlockingIOError:
            time.sleep(0.05)
        except OSError:
            break
    process.terminate()
    process.wait()
    os.close(ours)
    return output.decode(errors="replace")


def main() -> None:
    """Print one line for each feed and command."""
    other = HostileFeed()
    with HostileFeed() as feed, other, tempfile.TemporaryDirectory() as folder:
        feed.other = other.url
        environment = {**clean_environment(Path(folder)), "SWINK_GATEWAY_KEY": KEY}
        for kind in (*RECORDS, *BROKEN):
            for command in ("tail", "top"):
                output = watched(swink_command(command, f"{feed.url}/{kind}"), environment)
                raw = [repr(each) for each in RAW if each in output and each != "\x1b[2J"]
                crashed = "Traceback" in output or "Unexpected failure" in output
                detail = " ".join([*raw, "crashed" if crashed else ""]).strip()
                verdict(not raw and not crashed, f"{command}, {kind}", detail)
        watched(swink_command("tail", "--gateway", f"{feed.url}/redirected"), environment)
        detail = f"{len(feed.keys)} requests with a key, {len(other.keys)} at the other address"
        verdict(not other.keys, "a redirection does not carry the key", detail)


if __name__ == "__main__":
    main()

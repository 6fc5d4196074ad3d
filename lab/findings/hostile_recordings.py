"""Print what a hostile folder does to `swink replay`.

    python -m lab.findings.hostile_recordings

A recording's body may be a link, a pipe or a path to somewhere else; its fields may have control
sequences and absurd numbers. Such a folder may come from anybody.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

from lab.findings.command_line import ESCAPES, RAW
from lab.findings.terminal_display import terminal_output
from lab.findings.upstreams import verdict
from swink_testing.command_line import clean_environment, swink_command

SECONDS = 12
SECRET = "SECRET-OF-ANOTHER-FILE"

Change = Callable[[Path, dict[str, Any]], None]
"""Change the folder of a recording and its head."""


def field(name: str, value: object) -> Change:
    """Return a change of one field of the head."""

    def change(folder: Path, head: dict[str, Any]) -> None:
        place_of(head, name)[name] = value

    return change


def body(data: bytes) -> Change:
    """Return a change of the body."""

    def change(folder: Path, head: dict[str, Any]) -> None:
        answer = place_of(head, "body")
        (folder / answer["body"]).write_bytes(data)
        answer["chunks"] = [[0.0, len(data)]]

    return change


def place_of(head: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the part of a recording's head that has a field: itself, its leg or its answer."""
    leg: dict[str, Any] = head["legs"][0]
    answer: dict[str, Any] = leg["response"]
    return next(place for place in (answer, leg, head) if name in place)


def linked(folder: Path, head: dict[str, Any]) -> None:
    """Make the body a link to another file."""
    place = folder / place_of(head, "body")["body"]
    place.unlink()
    place.symlink_to(folder.parent / "secret")
    place_of(head, "chunks")["chunks"] = [[0.0, len(SECRET)]]


def elsewhere(folder: Path, head: dict[str, Any]) -> None:
    """Name a file outside of the folder as the body."""
    place_of(head, "body")["body"] = "../secret"
    place_of(head, "chunks")["chunks"] = [[0.0, len(SECRET)]]


def pipe(folder: Path, head: dict[str, Any]) -> None:
    """Make the body a pipe that has no writer."""
    place = folder / place_of(head, "body")["body"]
    place.unlink()
    os.mkfifo(place)


def escaped() -> bytes:
    """Return a body whose text has control sequences."""
    choice = {"index": 0, "delta": {"content": ESCAPES}, "finish_reason": "stop"}
    return f"data: {json.dumps({'choices': [choice]})}\n\ndata: [DONE]\n\n".encode()


LENGTHS = {"content-type": "text/event-stream", "content-length": "1"}
LENGTHS["transfer-encoding"] = "chunked"

CHANGES: dict[str, Change] = {
    "a link as the body": linked,
    "a path out of the folder": elsewhere,
    "a pipe as the body": pipe,
    "negative chunks": field("chunks", [[-5.0, -10]]),
    "chunks in the far future": field("chunks", [[1e308, 10]]),
    "an enormous status": field("status", 10**30),
    "a path as the provider": field("provider", "../../x"),
    "escapes in the provider": field("provider", ESCAPES),
    "escapes in the model": field("model", ESCAPES),
    "escapes in the format": field("wire_format", ESCAPES),
    "escapes in headers": field("headers", {"content-type": ESCAPES, "x\r\ny": "z\r\nq: 1"}),
    "two lengths": field("headers", LENGTHS),
    "escapes in the answer": body(escaped()),
    "another server as the path": field("request", {"method": "POST", "path": "http://evil/@"}),
}


def main() -> None:
    """Print one line for each folder."""
    source = Path(str(files("swink_provider_openai"))) / "recordings" / "text"
    for name, change in CHANGES.items():
        with tempfile.TemporaryDirectory() as place:
            (Path(place) / "secret").write_text(SECRET)
            folder = Path(place) / "recording"
            shutil.copytree(source, folder)
            file = folder / "recording.json"
            head = json.loads(file.read_text())
            change(folder, head)
            file.write_text(json.dumps(head))
            command = ["timeout", str(SECONDS), *swink_command("replay", "--fast", str(folder))]
            began = time.monotonic()
            shown = terminal_output(command, clean_environment(Path(place)))
            output = shown.decode("utf-8", "replace")
            problems = [repr(each) for each in RAW if each in output]
            if time.monotonic() - began > SECONDS:
                problems.append("does not end")
            if SECRET in output:
                problems.append("shows another file")
            if "Traceback" in output or "This is a bug" in output:
                problems.append("crashed")
            verdict(not problems, name, " ".join(problems))


if __name__ == "__main__":
    main()

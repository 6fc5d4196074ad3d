"""Convert recordings of earlier versions, with one request per attempt, to the current format.

    python -m swink_recorder.convert PATH …

A path is a folder of recordings, a cassette file, or the folder or SQLite file with the calls
recorded by `SWINK_RECORD`. Each file that has an older format is converted in place.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from swink_core import SwinkError
from swink_recorder.recording import HEAD_FILE, Recording, RecordingError, find_recordings
from swink_recorder.store import SUFFIXES, open_store
from swink_recorder.takes import read_takes, write_takes

__all__ = ["convert", "main"]

_OF_THE_LEG = ("request", "status", "headers", "body", "chunks", "reads")


def convert(path: Path) -> Iterator[str]:
    """Convert the files at a path, and yield the name of each converted file.

    Raises RecordingError for a file that cannot be read.
    """
    if path.suffix in SUFFIXES or [*path.glob("*.call")]:
        yield from _calls(path)
    elif path.is_dir():
        for folder in find_recordings(path):
            yield from _file(folder / HEAD_FILE)
    else:
        yield from _file(path)


def _file(path: Path) -> Iterator[str]:
    data = _read(path, path.read_bytes() if path.is_file() else b"")
    if data.get("swink_cassette") == 1:
        attempts = [_with_a_leg(attempt, 0) for attempt in data["attempts"]]
        text = json.dumps({**data, "swink_cassette": 2, "attempts": attempts})
        path.write_bytes(write_takes(*read_takes(text.encode(), path)))
    elif data.get("version") == 1:
        text = json.dumps({**_with_a_leg(data, 200), "version": 2}, ensure_ascii=False)
        path.write_text(text, "utf-8")
        Recording.load(path.parent).save(path.parent)
    else:
        return
    yield str(path)


def _calls(path: Path) -> Iterator[str]:
    store = open_store(path)
    for entry in [*store.entries()]:
        document = store.read(entry.id)
        first, second, body = [*document.split(b"\n", 2), b"", b""][:3]
        data = _read(path / entry.id, second)
        if data.get("swink_call") != 1:
            continue
        data["swink_call"] = 2
        for attempt in data["attempts"]:
            attempt["chunks"] = attempt.pop("reads", [])
        data["attempts"] = [_with_a_leg(attempt, 0) for attempt in data["attempts"]]
        line = json.dumps(data, separators=(",", ":")).encode()
        store.add([(entry, [first + b"\n", line + b"\n", body])])
        yield f"{path}: {entry.id}"


def _read(path: Path, text: bytes) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError as error:
        raise RecordingError(f"{path}: {error}", resolution="Restore it, or delete it.") from error
    if not isinstance(data, dict):
        raise RecordingError(f"{path}: not a recording", resolution="Name another path.")
    return data


def _with_a_leg(old: dict[str, Any], status: int) -> dict[str, Any]:
    """Return the data of an attempt with its request and answer moved into a leg.

    A leg is a request with its answer. `status` is used if the answer has no status.
    """
    new = {name: value for name, value in old.items() if name not in _OF_THE_LEG}
    leg: dict[str, Any] = {}
    request = old.get("request")
    if request:
        leg["request"] = {"method": "POST", "path": "/", **request}
    response = {name: old[name] for name in _OF_THE_LEG[1:] if name in old}
    response.setdefault("status", status)
    if response["status"] or response.get("reads") or response.get("chunks"):
        leg["response"] = response
    if leg or status:
        new["legs"] = [leg]
    return new


def main(arguments: Sequence[str]) -> int:
    """Convert paths, and return the exit code."""
    if not arguments or arguments[0].startswith("-"):
        print("usage: python -m swink_recorder.convert PATH …", file=sys.stderr)
        return 2
    broken = 0
    for name in arguments:
        try:
            for done in convert(Path(name)):
                print(f"converted: {done}")
        except (SwinkError, OSError) as error:
            print(error, file=sys.stderr)
            broken += 1
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Recordings: captured bytes with their times, and the message that they should make.

A recording is a folder of three files, or four:

    recording.json   {"version": 1, "provider", "model", "wire_format", "note",
                      "request": {"method", "path", "headers", "body"},
                      "status", "headers", "body": "body.sse",
                      "chunks": [[seconds since the response's start, size in bytes], …]}
    body.sse         the body as it was read, decompressed (.sse, .ndjson, .json or .bin)
    message.json     the expected AssistantMessage as `codec.dump` writes it; a failed answer has
                     stop_reason "error" and an error_kind. Absent: nobody has said yet
    notices.json     the notices that the answer makes, a list of `code: detail`, each as much of
                     it as matters. Absent: it makes none

Nothing that looks like a credential is ever written: `save` hides headers and query parameters
by their names, and the secrets that it is told of wherever they occur.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import msgspec
from attrs import Factory, define, field

from swink_core import AssistantMessage, CodecError, UsageError, dump, load
from swink_recorder.scrub import HIDDEN, hidden, scrub_headers, scrub_url, scrubbed

__all__ = [
    "STREAMED",
    "RecordedRequest",
    "Recording",
    "RecordingError",
    "body_file_for",
    "bundled_recordings",
    "find_recordings",
]

STREAMED = (0, 101, 200)
"""Statuses of an answer whose body is a stream; one that did not come over HTTP has 0."""

VERSION = 1
HEAD_FILE = "recording.json"
MESSAGE_FILE = "message.json"
NOTICES_FILE = "notices.json"
BUNDLE = "recordings"
"""The folder of a provider package that holds its recordings, as package data."""

_SUFFIXES = {
    "text/event-stream": "body.sse",
    "application/x-ndjson": "body.ndjson",
    "application/jsonl": "body.ndjson",
    "application/json": "body.json",
}


class RecordingError(UsageError):
    """A recording that cannot be read."""

    title = "Broken recording"


class _RequestFile(msgspec.Struct):
    method: str = "POST"
    path: str = "/"
    headers: dict[str, str] = {}
    body: Any = None


class _HeadFile(msgspec.Struct):
    version: int
    provider: str
    model: str
    body: str
    chunks: list[tuple[float, int]]
    wire_format: str = ""
    note: str = ""
    request: _RequestFile = msgspec.field(default_factory=_RequestFile)
    status: int = 200
    headers: dict[str, str] = {}


def body_file_for(headers: Mapping[str, str]) -> str:
    """Name the body's file after the media type in response headers."""
    types = [value for name, value in headers.items() if name.lower() == "content-type"]
    media_type = types[0].partition(";")[0].strip().lower() if types else ""
    return _SUFFIXES.get(media_type, "body.bin")


@define
class RecordedRequest:
    """What was asked. `path` has the query; `body` is JSON data, `None` where there was none."""

    method: str = "POST"
    path: str = "/"
    headers: dict[str, str] = field(factory=dict, repr=False)
    body: Any = field(default=None, repr=False)


@define
class Recording:
    """One answer of a provider as it came.

    `model` is the bare id. `chunks` are the network reads: when each came, in seconds since the
    response's start, and its size in bytes. `message` is what the answer should become, `None`
    where nobody has said yet, and `notices` are those that it makes.
    """

    provider: str
    model: str
    body: bytes = field(repr=False)
    chunks: list[tuple[float, int]] = field(repr=False)
    wire_format: str = ""
    note: str = ""
    request: RecordedRequest = field(factory=RecordedRequest)
    status: int = 200
    headers: dict[str, str] = field(factory=dict, repr=False)
    message: AssistantMessage | None = field(default=None, repr=False)
    notices: list[str] = field(factory=list, repr=False)
    body_file: str = field(
        default=Factory(lambda self: body_file_for(self.headers), takes_self=True)
    )
    name: str = ""
    """The folder's name."""

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a recording. Raises RecordingError, which says what is wrong with it."""
        folder = Path(folder)
        path = folder / HEAD_FILE
        try:
            head = msgspec.json.decode(_read(path), type=_HeadFile)
        except msgspec.DecodeError as error:
            raise _broken(path, str(error)) from error
        if head.version != VERSION:
            raise RecordingError(
                f"{path}: version {head.version} of the format; this swink-core reads {VERSION}",
                resolution="Record it again, or use the swink-core that recorded it.",
            )
        if Path(head.body).name != head.body or head.body == "..":
            raise _broken(path, f"the body {head.body!r} is not a file name")
        _check_headers(path, head.headers)
        body = _read(folder / head.body)
        _check_chunks(path, head.chunks, len(body))
        return cls(
            provider=head.provider,
            model=head.model,
            body=body,
            chunks=head.chunks,
            wire_format=head.wire_format,
            note=head.note,
            request=RecordedRequest(
                head.request.method, head.request.path, head.request.headers, head.request.body
            ),
            status=head.status,
            headers=head.headers,
            message=_load_message(folder / MESSAGE_FILE),
            notices=_load_notices(folder / NOTICES_FILE),
            body_file=head.body,
            name=folder.name,
        )

    def save(self, folder: str | Path, secrets: Iterable[str] = ()) -> None:
        """Write the recording, with everything hidden that looks like a credential.

        `secrets` are hidden wherever they occur, in pieces too: in a stream by as many asterisks,
        so that the sizes still hold. Raises RecordingError where the sizes do not add up to it.
        """
        folder = Path(folder)
        _check_chunks(folder / HEAD_FILE, self.chunks, len(self.body))
        secrets = {*secrets}
        body, chunks = self.without(secrets)
        request = self.request
        head = {
            "version": VERSION,
            "provider": self.provider,
            "model": self.model,
            "wire_format": self.wire_format,
            "note": self.note,
            "request": {
                "method": request.method,
                "path": scrub_url(request.path),
                "headers": scrub_headers(request.headers),
                "body": request.body,
            },
            "status": self.status,
            "headers": scrub_headers(self.headers),
            "body": self.body_file,
        }
        rows = ",\n  ".join(json.dumps([round(at, 6), size]) for at, size in chunks)
        text = f'{_pretty(head)[:-2]},\n "chunks": [\n  {rows}\n ]\n}}'  # a chunk a line
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / HEAD_FILE, text, secrets)
        _inside(folder / self.body_file).write_bytes(body)
        if self.message is not None:
            _write(folder / MESSAGE_FILE, _pretty(dump(self.message)), secrets)
        if self.notices:
            _write(folder / NOTICES_FILE, _pretty(self.notices), secrets)

    def without(self, secrets: set[str]) -> tuple[bytes, list[tuple[float, int]]]:
        """Return the body without secrets, and its chunks.

        A stream stays as long as it was, since its frames may count their bytes. A refusal, whose
        text is shown, has what the failure had where it was told, and is one chunk if it had any.
        """
        body = self.body
        if self.status not in STREAMED:
            body = hidden(body, secrets, HIDDEN)
        body, kept = scrubbed(body, secrets), body is self.body or len(body) == len(self.body)
        return body, self.chunks if kept else [(self.chunks[-1][0], len(body))]

    def pieces(self) -> list[tuple[float, bytes]]:
        """Return each network read with its time in seconds."""
        pieces, start = [], 0
        for seconds, size in self.chunks:
            pieces.append((seconds, self.body[start : start + size]))
            start += size
        return pieces


def find_recordings(folder: str | Path) -> list[Path]:
    """List the folders of recordings below `folder`, sorted; none if it is absent."""
    return sorted(path.parent for path in Path(folder).rglob(HEAD_FILE))


def bundled_recordings(package: str, bundle: str = BUNDLE) -> list[Path]:
    """List the recordings that a package ships in a folder, importing nothing."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return []
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return [path for folder in folders for path in find_recordings(Path(folder) / bundle)]


def _check_headers(path: Path, headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not _HEADER.fullmatch(f"{name}{value}"):
            reason = f"the header {name!r} has a line break or characters beyond Latin-1"
            raise _broken(path, reason)


_HEADER = re.compile(r"[^\r\n\0\u0100-\U0010ffff]*")


def _check_chunks(path: Path, chunks: list[tuple[float, int]], size: int) -> None:
    if any(count < 0 or seconds < 0 for seconds, count in chunks):
        raise _broken(path, "a chunk has a negative time or size")
    total = sum(count for _, count in chunks)
    if total != size:
        raise _broken(path, f"the chunks add up to {total} bytes, the body has {size}")
    times = [seconds for seconds, _ in chunks]
    if times != sorted(times):
        raise _broken(path, "the chunks' times go backwards")


def _load_message(path: Path) -> AssistantMessage | None:
    if not path.is_file():
        return None
    try:
        return load(AssistantMessage, msgspec.json.decode(_read(path)))
    except (msgspec.DecodeError, CodecError) as error:
        raise _broken(path, str(error)) from error


def _load_notices(path: Path) -> list[str]:
    try:
        return msgspec.json.decode(_read(path), type=list[str]) if path.is_file() else []
    except msgspec.DecodeError as error:
        raise _broken(path, str(error)) from error


def _inside(path: Path) -> Path:
    """Return a path that no link leads out of its folder. Raises RecordingError."""
    if path.is_symlink() and path.resolve().parent != path.parent.resolve():
        raise _broken(path, "it is a link out of the recording")
    return path


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise _broken(path, "it is not a regular file")  # a pipe may never end
    try:
        return _inside(path).read_bytes()
    except OSError as error:
        raise _broken(path, error.strerror or str(error)) from error


def _pretty(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False)


def _write(path: Path, text: str, secrets: Iterable[str]) -> None:
    _inside(path).write_bytes(hidden(text.encode(), secrets) + b"\n")


def _broken(path: Path, reason: str) -> RecordingError:
    return RecordingError(f"{path}: {reason}", resolution="Record it again, or restore its files.")

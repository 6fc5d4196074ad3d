"""Recordings: the requests and answers of an attempt, with times, and the expected message.

A recording contains all requests of an attempt in order, each with its answer (a "leg"). Most
recordings have one leg. A recording is a folder:

    recording.json   {"version": 2, "provider", "model", "wire_format", "note",
                      "asked": the call (model, address, options, context) or absent,
                      "confirmed": the parts of message.json that a person confirmed, or absent,
                      "origins": ["https://api.example.com", …],
                      "legs": [{"kind", "at",
                                "request": {"method", "path", "headers", "origin", "body", "form"},
                                "response": {"status", "headers", "at", "body": "body.sse",
                                             "chunks": [[seconds, size in bytes], …]}}, …]}
    body.sse         the answer's body as it was read, decompressed (.sse, .ndjson, .json or .bin);
                     other legs' bodies are in 0.json, 1.sse, …; the number is the index in `legs`
    message.json     the expected AssistantMessage as `codec.dump` writes it; a failed answer has
                     stop_reason "error" and an error_kind. Absent: not specified
    notices.json     the expected notices: a list of texts, each contained in the `code: detail` of
                     the notice at the same position. Absent: no notices

A leg's `kind` is `stream` (the default), `whole` (its answer was read in full before it was
processed), `token` (it fetched an access token) or `abandon` (it told the server to cancel work).
The model's answer is in the last leg of the kind `stream`, or else in the last of the kind `whole`.
`at` is in seconds since the attempt began. The times of chunks are in seconds since the response's
head arrived. `origin` is an index in `origins`, whose first element is the origin of the call's
address; an `origin` of 0 is omitted. `body` of a request is JSON data, and `form` contains the
fields of a form. A leg has no `response` if no answer arrived, and no `request` if HTTP was not
used.

Text that looks like a credential is never written. It is replaced by a text that names the source
of the credential. This is `[key]`, as in `Bearer [key]`, for a credential from the caller or from
an earlier call, `[0.access_token]` for one from the field `access_token` of the first leg's answer,
and `[hidden]` for one from an unknown source. In streams, each character of a credential is
replaced by an asterisk.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import msgspec
from attrs import Factory, define, field

from swink_core import AssistantMessage, CodecError, UsageError, dump, load
from swink_recorder.legs import (
    LegFile,
    LegKind,
    RecordedLeg,
    RecordedRequest,
    answer_of,
    body_file_for,
)
from swink_recorder.scrub import hidden
from swink_recorder.sources import Sources

__all__ = [
    "Recording",
    "RecordingError",
    "bundled_recordings",
    "find_recordings",
    "other_version",
]

VERSION = 2
HEAD_FILE = "recording.json"
MESSAGE_FILE = "message.json"
NOTICES_FILE = "notices.json"
BUNDLE = "recordings"
"""The folder with recordings in a provider package, as package data."""


class RecordingError(UsageError):
    """A recording cannot be read."""

    title = "Broken recording"


class _Version(msgspec.Struct):
    version: int


class _HeadFile(msgspec.Struct):
    version: int
    provider: str
    model: str
    legs: list[LegFile]
    wire_format: str = ""
    note: str = ""
    asked: dict[str, Any] | None = None
    confirmed: list[str] = []
    origins: list[str] = []


@define
class Recording:
    """All requests of one attempt, each with its response. One response is the model's answer.

    `before` contains the requests that were sent before the request with this answer, for example
    for an access token, and `after` contains those that were sent after it. `body` contains the
    bytes of the answer. `chunks` are its network reads: the time of each, in seconds since the
    response's start, and its size in bytes. `kind`, `request`, `status`, `headers`, `sent_at` and
    `answered_at` describe the request with this answer and its response; see `RecordedLeg`. `model`
    is the model's id without the provider's name. `asked` is the canonical request of the call
    (`None`: unknown), `confirmed` names the parts of the message that a person confirmed, `origins`
    are the addresses (without paths) to which requests were sent. `message` is the expected message
    (`None`: not specified), and `notices` are the expected notices.
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
    kind: LegKind = "stream"
    sent_at: float = 0.0
    answered_at: float = 0.0
    before: list[RecordedLeg] = field(factory=list)
    after: list[RecordedLeg] = field(factory=list)
    origins: list[str] = field(factory=list)
    asked: dict[str, Any] | None = field(default=None, repr=False)
    confirmed: list[str] = field(factory=list)

    @classmethod
    def of(cls, legs: Sequence[RecordedLeg], provider: str, model: str, **facts: Any) -> Self:
        """Return a recording with these legs, in order; `facts` are its other fields.

        `legs` is empty if nothing was sent or received.
        """
        legs = legs or [RecordedLeg(request=RecordedRequest("", ""))]
        place = answer_of([leg.kind for leg in legs])
        answer = legs[place]
        return cls(
            provider,
            model,
            answer.body,
            answer.chunks,
            request=answer.request,
            status=answer.status,
            headers=answer.headers,
            body_file=answer.body_file,
            kind=answer.kind,
            sent_at=answer.sent_at,
            answered_at=answer.answered_at,
            before=[*legs[:place]],
            after=[*legs[place + 1 :]],
            **facts,
        )

    @property
    def legs(self) -> list[RecordedLeg]:
        """All requests in order, each with its answer."""
        return [*self.before, self.answer, *self.after]

    @property
    def answer(self) -> RecordedLeg:
        """The leg that contains the answer."""
        return RecordedLeg(
            self.body,
            self.chunks,
            self.kind,
            self.request,
            self.status,
            self.headers,
            self.sent_at,
            self.answered_at,
            self.body_file,
        )

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Read a recording. Raises RecordingError if it is invalid."""
        folder = Path(folder)
        path = folder / HEAD_FILE
        data = _read(path)
        try:
            version = msgspec.json.decode(data, type=_Version).version
            if version != VERSION:
                raise other_version(folder, version, VERSION)
            head = msgspec.json.decode(data, type=_HeadFile)
        except msgspec.DecodeError as error:
            raise _broken(path, str(error)) from error
        if not head.legs:
            raise _broken(path, "the recording has no legs")
        return cls.of(
            [_load_leg(path, row) for row in head.legs],
            head.provider,
            head.model,
            wire_format=head.wire_format,
            note=head.note,
            asked=head.asked,
            confirmed=head.confirmed,
            origins=head.origins,
            message=_load_message(folder / MESSAGE_FILE),
            notices=_load_notices(folder / NOTICES_FILE),
            name=folder.name,
        )

    def save(self, folder: str | Path, secrets: Iterable[str] = ()) -> None:
        """Write the recording, hiding everything that looks like a credential.

        `secrets` are hidden wherever they occur, even if they are split over several frames. In a
        stream, each character of a secret is replaced by an asterisk, so that the sizes of the
        chunks still match. Raises RecordingError if these sizes do not add up to the size of the
        body.
        """
        folder = Path(folder)
        legs = self.legs
        for leg in legs:
            _check_chunks(folder / HEAD_FILE, leg.chunks, len(leg.body))
        sources = Sources(legs, secrets, f"{self.provider}/{self.model}")
        rows = []
        bodies: dict[str, bytes] = {}
        for number, leg in enumerate(legs):
            file = leg.body_file
            if number != len(self.before):
                file = f"{number}{Path(file).suffix}"
            body, chunks = sources.body(leg)
            row = sources.row(leg, body=file)
            if "response" in row:
                bodies[file] = body
            rows.append(_leg_text(row, chunks))
        head = {
            "version": VERSION,
            "provider": self.provider,
            "model": self.model,
            "wire_format": self.wire_format,
            "note": self.note,
        }
        if self.asked is not None:
            head["asked"] = self.asked
        if self.confirmed:
            head["confirmed"] = self.confirmed
        if self.origins:
            head["origins"] = self.origins
        text = f'{_pretty(head)[:-2]},\n "legs": [\n' + ",\n".join(rows) + "\n ]\n}"
        folder.mkdir(parents=True, exist_ok=True)
        _inside(folder / HEAD_FILE).write_bytes(sources.mark(text.encode()) + b"\n")
        for file, body in bodies.items():
            _inside(folder / file).write_bytes(body)
        if self.message is not None:
            _write(folder / MESSAGE_FILE, _pretty(dump(self.message)), sources.secrets)
        if self.notices:
            _write(folder / NOTICES_FILE, _pretty(self.notices), sources.secrets)

    def pieces(self) -> list[tuple[float, bytes]]:
        """Return each network read of the answer with its time in seconds."""
        return self.answer.pieces()


def other_version(path: str | Path, version: int, read: int, part: str = "") -> RecordingError:
    """Return the error for a file with a format `version` other than `read`, the supported one.

    `part` names the part of the file that has this version; it is empty if the whole file has it.
    """
    older = f"Convert it: python -m swink_recorder.convert {shlex.quote(str(path))}"
    return RecordingError(
        f"{path}{part}: unsupported format version {version}; this swink-recorder reads version "
        f"{read}",
        resolution=older
        if version < read
        else ("Install the version of swink-recorder that wrote it."),
    )


def find_recordings(folder: str | Path) -> list[Path]:
    """List the recording folders below `folder`, sorted; empty if it does not exist."""
    return sorted(path.parent for path in Path(folder).rglob(HEAD_FILE))


def bundled_recordings(package: str, bundle: str = BUNDLE) -> list[Path]:
    """List the recordings in a folder of a package, without importing the package."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return []
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return [path for folder in folders for path in find_recordings(Path(folder) / bundle)]


def _load_leg(path: Path, row: LegFile) -> RecordedLeg:
    said = row.response
    if said is None:
        return row.leg(b"", [])
    file = said.body or ""
    if Path(file).name != file or file in ("", ".."):
        raise _broken(path, f"the body {file!r} is not a file name")
    _check_headers(path, said.headers)
    body = _read(path.parent / file)
    _check_chunks(path, said.chunks, len(body))
    return row.leg(body, said.chunks)


def _leg_text(row: dict[str, Any], chunks: list[tuple[float, int]]) -> str:
    """Return a leg in its file format, with one chunk per line."""
    text = _pretty(row)
    if "response" in row:
        lines = ",\n   ".join(json.dumps([round(at, 6), size]) for at, size in chunks)
        text = f'{text[:-5]},\n  "chunks": [\n   {lines}\n  ]\n }}\n}}'
    return "  " + text.replace("\n", "\n  ")


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
        raise _broken(path, f"the chunks add up to {total} bytes, but the body has {size}")
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
    """Return `path`. Raises RecordingError if it is a symbolic link to another folder."""
    if path.is_symlink() and path.resolve().parent != path.parent.resolve():
        raise _broken(path, "it is a link that leaves the recording")
    return path


def _read(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise _broken(path, "it is not a regular file")  # reading a pipe may never end
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

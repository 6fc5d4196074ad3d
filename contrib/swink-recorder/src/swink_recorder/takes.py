"""Takes (recorded attempts of calls), and the format of files with several takes.

    {"swink_cassette": 2,
     "attempts": [{"asked": the canonical request, "provider", "model", "wire_format", "origins",
                   "failure": {"kind", "message", …},
                   "legs": as in recordings, with the bytes of each answer in it:
                           "response": {…, "reads": [[seconds, line, …, or {"base64": …}], …]},
                   "events": [[seconds since the attempt began, event], …]}, …]}

Each line of an answer, and each event, is a line of the file, so that diffs are readable. Like
every recording, the file contains nothing that looks like a credential.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from attrs import define, field

from swink_core import Error, Retry, StreamErrorKind
from swink_recorder.capture import AttemptTape
from swink_recorder.legs import LegFile, RecordedLeg
from swink_recorder.recording import Recording, RecordingError, other_version
from swink_recorder.scrub import hidden, scrubbed
from swink_recorder.sources import Sources

__all__ = [
    "Body",
    "Take",
    "TakeFailure",
    "TakeHead",
    "read_takes",
    "take_from",
    "take_head",
    "take_of",
    "to_json",
    "write_takes",
]

VERSION = 2

Body: TypeAlias = "tuple[bytes, list[tuple[float, int]]]"
"""The body of an answer, with its chunks."""


class TakeFailure(msgspec.Struct, omit_defaults=True):
    """How an attempt failed, as reported to observers."""

    kind: StreamErrorKind
    message: str = ""
    code: str | None = None
    phase: str | None = None
    retry_after: float | None = None
    title: str | None = None
    resolution: str | None = None
    rule: str | None = None

    def __post_init__(self) -> None:
        """Convert the field `rule` of older files to `code`.

        `rule` contains `core:CODE`, or the name of the classification rule that matched (this name
        is dropped).
        """
        prefix, _, code = (self.rule or "").partition(":")
        if prefix == "core" and self.code is None and code != self.kind:
            self.code = code
        self.rule = None


class TakeHead(msgspec.Struct):
    """The data of a take in a file, except its events."""

    asked: dict[str, Any]
    provider: str
    model: str
    wire_format: str = ""
    origins: list[str] = []
    legs: list[LegFile] = []
    failure: TakeFailure | None = None
    request_id: str | None = None
    charged: float | None = None


class _TakeFile(TakeHead):
    events: list[tuple[float, dict[str, Any]]] = []


class _Version(msgspec.Struct):
    swink_cassette: int


class _File(msgspec.Struct):
    swink_cassette: int
    attempts: list[_TakeFile]
    call: dict[str, Any] = {}


@define
class Take:
    """One attempt: the canonical request, the answer, and how it failed.

    `events` are stored only for a provider whose bytes cannot be recorded, because it does not use
    HTTP. `charged` is the cost reported by the provider, in US dollars.
    """

    asked: dict[str, Any] = field(repr=False)
    recording: Recording
    events: list[tuple[float, Any]] = field(factory=list, repr=False)
    failure: TakeFailure | None = None
    request_id: str | None = None
    charged: float | None = None


def take_of(tape: AttemptTape, asked: dict[str, Any], with_events: bool) -> Take:
    """Convert the tape of an attempt to a take (a recorded attempt)."""
    events = tape.events() if with_events else []
    attempt = tape.attempt
    failure = _failure(tape.error) if tape.error is not None else None
    return Take(asked, tape.recording(), events, failure, attempt.request_id, attempt.reported_cost)


def _failure(error: Error | Retry) -> TakeFailure:
    kind = error.error_kind or StreamErrorKind.UNKNOWN
    if isinstance(error, Retry):
        return TakeFailure(kind, error.error, error.code)
    told = (error.code, error.phase, error.retry_after, error.title, error.resolution)
    return TakeFailure(kind, error.error_message, *told)


def write_takes(
    takes: Sequence[Take], call: dict[str, Any] | None = None, secrets: Iterable[str] = ()
) -> bytes:
    """Return the content of a file of takes; `call` is included as the description of the call."""
    secrets = {*secrets}
    # A name such as "ollama" is not secret.
    named = " ".join(take.asked.get("model", "") for take in takes)
    sources = [Sources(take.recording.legs, secrets, named) for take in takes]
    texts = [_take_text(take, of_it) for take, of_it in zip(takes, sources, strict=True)]
    attempts = ",\n".join(map(_indented, texts))
    about = f' "call": {to_json(call)},\n' if call else ""
    text = f'{{\n "swink_cassette": {VERSION},\n{about} "attempts": [\n{attempts}\n ]\n}}\n'
    return hidden(text.encode(), {secret for each in sources for secret in each.secrets})


def read_takes(data: bytes, where: str | Path) -> tuple[list[Take], dict[str, Any]]:
    """Return the takes of a file, and the description of their call.

    Raises RecordingError, which names `where` and the problem.
    """
    try:
        told = json.loads(data)
        version = msgspec.convert(told, _Version).swink_cassette
        if version == VERSION:
            file = msgspec.convert(told, _File)
            return [_take(row) for row in file.attempts], file.call
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise RecordingError(
            f"{where}: {error}",
            title="Broken cassette",
            resolution="Delete it and record it again, or restore it.",
        ) from error
    raise other_version(where, version, VERSION)


def _take(row: _TakeFile) -> Take:
    bodies: list[Body] = []
    for leg in row.legs:
        rows = leg.response.reads if leg.response else []
        reads = [(float(at), b"".join(map(_bytes, pieces))) for at, *pieces in rows]
        body = b"".join([piece for _, piece in reads])
        bodies.append((body, [(at, len(piece)) for at, piece in reads]))
    return take_from(row, bodies, [*row.events])


def take_from(
    head: TakeHead,
    bodies: Sequence[Body],
    events: list[tuple[float, Any]],
) -> Take:
    """Create a take from its head, its events, and the body and chunks of each leg.

    A leg is a request with its answer.
    """
    recording = Recording.of(
        [row.leg(*body) for row, body in zip(head.legs, bodies, strict=True)],
        head.provider,
        head.model,
        wire_format=head.wire_format,
        origins=head.origins,
    )
    return Take(head.asked, recording, events, head.failure, head.request_id, head.charged)


def take_head(take: Take) -> dict[str, Any]:
    """Return a take as JSON data, without its legs and events."""
    recording = take.recording
    head: dict[str, Any] = {
        "asked": take.asked,
        "provider": recording.provider,
        "model": recording.model,
        "wire_format": recording.wire_format,
        "origins": recording.origins,
        "request_id": take.request_id,
        "charged": take.charged,
        "failure": msgspec.to_builtins(take.failure),
    }
    return {name: value for name, value in head.items() if value not in (None, "", [])}


def _take_text(take: Take, sources: Sources) -> str:
    secrets = sources.secrets
    legs = [_leg_text(leg, sources) for leg in take.recording.legs]
    events = _lines([(round(at, 6), event) for at, event in take.events]).encode()
    clean = scrubbed if _comes_in_pieces(take.events, secrets) else hidden
    shown = clean(events, secrets).decode().replace("\n", ",\n  ")
    text = to_json(take_head(take), 1)[:-2]
    for name, lines in (("legs", ",\n".join(filter(None, legs))), ("events", f"  {shown}")):
        if lines.strip():
            text += f',\n "{name}": [\n{lines}\n ]'
    return text + "\n}"


def _leg_text(leg: RecordedLeg, sources: Sources) -> str:
    """Return the JSON text of a leg, in which each line of the answer is a separate line.

    The text is empty if the leg has no content.
    """
    row = sources.row(leg)
    if not row:
        return ""
    text = sources.mark(to_json(row, 1).encode()).decode()
    body, chunks = sources.body(leg)
    rows, start = [], 0
    for at, size in chunks:
        cells = [round(at, 6), *_readable(body[start : start + size])]
        rows.append("[" + _lines(cells).replace("\n", ",\n    ") + "]")
        start += size
    if rows and "response" in row:
        text = text[:-5] + ',\n  "reads": [\n   ' + ",\n   ".join(rows) + "\n  ]\n }\n}"
    return _indented(text)


def _comes_in_pieces(events: list[tuple[float, Any]], secrets: Iterable[str]) -> bool:
    """Return True if a secret is spread over consecutive deltas of a block."""
    pieces: dict[Any, list[str]] = {}
    for _, event in events:
        if (delta := event.get("delta")) is not None:
            pieces.setdefault(event["content_index"], []).append(delta)
    return any(secret in "".join(block) for block in pieces.values() for secret in secrets)


def _readable(piece: bytes) -> list[Any]:
    try:
        return piece.decode().splitlines(keepends=True)
    except UnicodeDecodeError:
        return [{"base64": b64encode(piece).decode()}]


def _bytes(piece: Any) -> bytes:
    return piece.encode() if isinstance(piece, str) else b64decode(piece["base64"])


def to_json(data: Any, indent: int = 0) -> str:
    """Return data as JSON; lone surrogates in texts are allowed."""
    try:
        text = msgspec.json.encode(data, enc_hook=repr)
    except UnicodeEncodeError:  # a lone surrogate, which models sometimes produce
        return json.dumps(data, indent=indent or None, default=repr)
    return (msgspec.json.format(text, indent=indent) if indent else text).decode()


_write_lines = msgspec.json.Encoder(enc_hook=repr).encode_lines


def _lines(data: list[Any]) -> str:
    """Return JSON data with one item per line."""
    try:
        return _write_lines(data)[:-1].decode()
    except UnicodeEncodeError:
        return "\n".join(map(to_json, data))


def _indented(text: str) -> str:
    return "  " + text.replace("\n", "\n  ")

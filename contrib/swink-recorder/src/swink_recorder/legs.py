"""The HTTP requests of a call with their answers ("legs"), and their file format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import msgspec
from attrs import Factory, define, evolve, field

from swink_core.providers import HTTPRequest

__all__ = [
    "STREAMED",
    "LegFile",
    "LegKind",
    "RecordedLeg",
    "RecordedRequest",
    "RequestFile",
    "ResponseFile",
    "answer_of",
    "body_file_for",
    "json_of",
    "recorded_request",
]

LegKind: TypeAlias = Literal["stream", "whole", "token", "abandon"]

STREAMED = (0, 101, 200)
"""Statuses of answers whose body is a stream; 0 means that the answer did not come over HTTP."""

_SUFFIXES = {
    "text/event-stream": "body.sse",
    "application/x-ndjson": "body.ndjson",
    "application/jsonl": "body.ndjson",
    "application/json": "body.json",
}


def body_file_for(headers: Mapping[str, str]) -> str:
    """Return a file name for a body, by the media type in response headers."""
    types = [value for name, value in headers.items() if name.lower() == "content-type"]
    media_type = types[0].partition(";")[0].strip().lower() if types else ""
    return _SUFFIXES.get(media_type, "body.bin")


@define
class RecordedRequest:
    """A recorded HTTP request.

    `path` includes the query; `body` is a JSON body, and `form` contains the fields of a form; each
    is `None` if the request has no body of this kind. `origin` is the index of the server's address
    in the recording's `origins`.
    """

    method: str = "POST"
    path: str = "/"
    headers: dict[str, str] = field(factory=dict, repr=False)
    body: Any = field(default=None, repr=False)
    form: dict[str, str] | None = field(default=None, repr=False)
    origin: int = 0


def recorded_request(request: HTTPRequest, origin: int = 0) -> RecordedRequest:
    """Return a request in the format of recordings, still including credentials.

    `origin` is the index of the server's address in the recording's `origins`.
    """
    url = urlsplit(request.url)
    return RecordedRequest(
        request.method,
        f"{url.path}?{url.query}" if url.query else url.path,
        dict(request.headers),
        json_of(request.body) if request.body else None,
        _form(request),
        origin,
    )


def _form(request: HTTPRequest) -> dict[str, str] | None:
    types = [value for name, value in request.headers.items() if name.lower() == "content-type"]
    if not types or not types[0].startswith("application/x-www-form-urlencoded"):
        return None
    return dict(parse_qsl(request.body.decode("latin-1"), keep_blank_values=True))


def json_of(body: bytes) -> Any:
    """Return a body as JSON data, or `None` if it is not JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


@define
class RecordedLeg:
    """One request and the bytes of the response ("leg").

    `kind` is `stream` (the answer was streamed), `whole` (the answer was read in full before it was
    processed), `token` (the request fetched an access token) or `abandon` (the request told the
    server to cancel work). `chunks` are the network reads: the time of each, in seconds since the
    response's start, and its size in bytes. `status` is 0 if no answer came over HTTP. `sent_at`
    and `answered_at` are seconds since the attempt began.
    """

    body: bytes = field(default=b"", repr=False)
    chunks: list[tuple[float, int]] = field(factory=list, repr=False)
    kind: LegKind = "stream"
    request: RecordedRequest = field(factory=RecordedRequest)
    status: int = 0
    headers: dict[str, str] = field(factory=dict, repr=False)
    sent_at: float = 0.0
    answered_at: float = 0.0
    body_file: str = field(
        default=Factory(lambda self: body_file_for(self.headers), takes_self=True)
    )

    def pieces(self) -> list[tuple[float, bytes]]:
        """Return each network read with its time in seconds."""
        pieces = []
        start = 0
        for seconds, size in self.chunks:
            pieces.append((seconds, self.body[start : start + size]))
            start += size
        return pieces


def answer_of(kinds: Sequence[LegKind]) -> int:
    """Return the index of the leg that contains the model's answer.

    This is the last leg of the kind `stream`. Without such a leg, it is the last leg of the kind
    `whole`, or else the last leg.
    """
    for wanted in ("stream", "whole"):
        found = [number for number, kind in enumerate(kinds) if kind == wanted]
        if found:
            return found[-1]
    return len(kinds) - 1


class RequestFile(msgspec.Struct, omit_defaults=True):
    """A request in the format of `recording.json`."""

    method: str
    path: str
    headers: dict[str, str] = {}
    origin: int = 0
    body: Any = None
    form: dict[str, str] | None = None


class ResponseFile(msgspec.Struct, omit_defaults=True):
    """An answer in a recording: `reads` contains its bytes, or `body` names the file with them."""

    status: int
    headers: dict[str, str] = {}
    at: float = 0.0
    body: str | None = None
    chunks: list[tuple[float, int]] = []
    reads: list[list[Any]] = []


class LegFile(msgspec.Struct, omit_defaults=True):
    """A leg (a request and its answer) in the format of `recording.json`.

    `request` is `None` if the call did not use HTTP, and `response` is `None` if no response
    arrived.
    """

    kind: LegKind = "stream"
    at: float = 0.0
    request: RequestFile | None = None
    response: ResponseFile | None = None

    def leg(self, body: bytes, chunks: list[tuple[float, int]]) -> RecordedLeg:
        """Return the leg with the bytes of the response."""
        asked = self.request or RequestFile("", "/")
        leg = RecordedLeg(
            body,
            chunks,
            self.kind,
            RecordedRequest(
                asked.method, asked.path, asked.headers, asked.body, asked.form, asked.origin
            ),
            status=0,
            sent_at=self.at,
        )
        said = self.response
        if said is None:
            return leg
        headers = said.headers
        file = said.body or body_file_for(headers)
        return evolve(leg, status=said.status, headers=headers, answered_at=said.at, body_file=file)

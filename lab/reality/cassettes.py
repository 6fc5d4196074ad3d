"""Read the HTTP exchanges that other projects have recorded, from any folder of cassettes.

The forms are VCR's (YAML or JSON, whole or one exchange a file, with bodies as text, as base64 or
parsed) and HAR. Files of any other form are skipped.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from attrs import define, field

__all__ = ["Exchange", "exchanges_in"]

JSON: TypeAlias = Any
"""Data of a cassette, of which nothing is known before it is looked at."""

_SUFFIXES = frozenset((".yaml", ".yml", ".json", ".har"))

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@define(frozen=True)
class Exchange:
    """A request and its answer, with bodies without their content coding.

    `place` names the file, below the folder, and the exchange's number in it, from 0.
    """

    place: str
    method: str
    url: str
    request_headers: dict[str, str] = field(repr=False)
    request: bytes = field(repr=False)
    status: int
    headers: Mapping[str, str] = field(repr=False)
    answer: bytes = field(repr=False)

    @property
    def media_type(self) -> str:
        """The answer's media type in lower case, without parameters; empty where it has none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


def exchanges_in(folder: Path) -> Iterator[Exchange]:
    """Yield each recorded exchange of the files under a folder, by the files' names."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in _SUFFIXES and path.is_file():
            place = str(path.relative_to(folder))
            for number, row in enumerate(_rows_of(path)):
                exchange = _exchange(f"{place}#{number}", row)
                if exchange is not None:
                    yield exchange


def _rows_of(path: Path) -> Sequence[JSON]:
    """Return the exchanges of a file as it holds them; an empty list for other files."""
    text = path.read_bytes()
    try:
        is_yaml = path.suffix in (".yaml", ".yml")
        data = yaml.load(text, Loader=_Loader) if is_yaml else json.loads(text)
    except (yaml.YAMLError, ValueError):
        return []
    if not isinstance(data, dict):
        return []
    if "request" in data and "response" in data:
        return [data]
    log = data.get("log")
    rows = log.get("entries") if isinstance(log, dict) else data.get("interactions")
    return rows if isinstance(rows, list) else []


def _exchange(place: str, row: JSON) -> Exchange | None:
    """Read one exchange; `None` where it lacks a request or an answer."""
    if not isinstance(row, dict):
        return None
    request = row.get("request")
    response = row.get("response")
    if not (isinstance(request, dict) and isinstance(response, dict)):
        return None
    url = request.get("uri") or request.get("url")
    status = response.get("status", response.get("status_code"))
    if isinstance(status, dict):
        status = status.get("code")
    if not isinstance(url, str) or not isinstance(status, int):
        return None
    headers = _headers(response.get("headers"))
    return Exchange(
        place=place,
        method=str(request.get("method") or "POST").upper(),
        url=url,
        request_headers=_headers(request.get("headers")),
        request=_body(request, {}),
        status=status,
        headers=headers,
        answer=_body(response, headers),
    )


def _headers(data: JSON) -> dict[str, str]:
    """Read headers from a mapping to texts or lists of them, or from HAR's list of pairs."""
    if isinstance(data, list):
        pairs = {each["name"]: each.get("value", "") for each in data if isinstance(each, dict)}
    else:
        pairs = data if isinstance(data, dict) else {}
    return {
        str(name).lower(): ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for name, value in pairs.items()
    }


def _body(message: Mapping[str, JSON], headers: Mapping[str, str]) -> bytes:
    """Return a body as bytes, without its content coding."""
    if (parsed := message.get("parsed_body")) is not None:
        return json.dumps(parsed).encode()
    data = message.get("body", message.get("postData", message.get("content")))
    encoding = ""
    if isinstance(data, dict):
        if not data.keys() & {"string", "text", "base64_string"} and "mimeType" not in data:
            return json.dumps(data).encode() if data else b""
        encoding = str(data.get("encoding") or "")
        if "base64_string" in data:
            data, encoding = data["base64_string"], "base64"
        else:
            data = data.get("string", data.get("text"))
    if isinstance(data, list | dict):
        return json.dumps(data).encode()
    if not data:
        return b""
    content = data if isinstance(data, bytes) else str(data).encode()
    if encoding == "base64":
        content = base64.b64decode(content)
    return _decoded(content, headers.get("content-encoding", ""))


def _decoded(content: bytes, coding: str) -> bytes:
    """Undo a content coding; recorders often have undone it and kept its header."""
    try:
        if content[:2] == b"\x1f\x8b":
            return gzip.decompress(content)
        if coding == "deflate":
            return zlib.decompress(content)
    except (OSError, zlib.error):
        return content
    return content

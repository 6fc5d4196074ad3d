"""Compare requests with recorded requests, and list the differences.

query.version: "2", recorded "1"
headers.accept: nothing, recorded "text/event-stream"
body.messages[0].content: "Hello", recorded "Hi"
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from swink_recorder.legs import RecordedRequest
from swink_recorder.scrub import (
    HIDDEN,
    KEY,
    SHORTEST_SECRET,
    is_mark,
    is_secret,
    is_secret_parameter,
    scheme_of,
)

__all__ = ["differing", "request_differences"]

_VARYING = frozenset({
    "accept-encoding", "connection", "content-length", "date", "host", "traceparent", "tracestate",
    "user-agent", "x-amz-content-sha256", "x-amz-date",
})  # fmt: skip
"""Names of headers that depend on the connection, the time or the machine."""

_VARYING_ENDS = ("request-id", "idempotency-key")
"""Endings of the names of headers whose values differ in each request."""

_STARS = rf"\*{{{SHORTEST_SECRET},}}"

_MARKS = rf"{_STARS}|{re.escape(KEY)}|{re.escape(HIDDEN)}"
"""Matches the placeholders that stand for any credential in a recorded request."""

_ABSENT = object()


def request_differences(
    sent: RecordedRequest, recorded: RecordedRequest, callers: Collection[str] = ()
) -> list[str]:
    """List the differences between a request and a recorded one, one line each.

    If the recorded path begins with the path of the recorded base URL, this beginning is ignored.
    The headers in the recording, the content type and headers with credentials are compared. Of
    credentials, only the scheme (such as `Bearer`) is compared; but if an answer in the recording
    contained the credential, its value is compared as well. `callers` are the lower-case names of
    headers set by the caller, which are not compared. If the recording has no headers, it was
    written by hand, and only the parts that it contains are compared.
    """
    found = []
    if sent.method != recorded.method:
        found.append(_line("method", sent.method, recorded.method))
    here, there = urlsplit(sent.path), urlsplit(recorded.path)
    if not f"/{there.path}".endswith(f"/{here.path.lstrip('/')}"):
        found.append(_line("path", here.path, there.path))
    is_whole = bool(recorded.headers)
    if is_whole or there.query:
        found += _named(_fields(here.query), _fields(there.query), "query")
    if is_whole:
        found += _named(*_headers(sent.headers, recorded.headers, callers), "headers")
    if is_whole or recorded.form is not None:
        found += _named(sent.form or {}, recorded.form or {}, "form")
    if recorded.form is None and (is_whole or recorded.body is not None):
        found += [line for _, line in differing(sent.body, recorded.body, "body", _MARKS)]
    return found


def differing(
    asked: Any, recorded: Any, place: str = "", marks: str = _STARS
) -> list[tuple[str, str]]:
    """Return the path of each difference between two JSON values, and a line with both values.

    `marks` matches the placeholders of secrets in recorded texts; an asterisk stands for one
    character, and other placeholders for any text.
    """
    if isinstance(asked, dict) and isinstance(recorded, dict):
        found = []
        for name in dict.fromkeys([*asked, *recorded]):
            inner = asked.get(name, _ABSENT), recorded.get(name, _ABSENT)
            found += differing(*inner, f"{place}.{name}" if place else name, marks)
        return found
    if isinstance(asked, list) and isinstance(recorded, list):
        found = []
        for index in range(max(len(asked), len(recorded))):
            a, r = (one[index] if index < len(one) else _ABSENT for one in (asked, recorded))
            found += differing(a, r, f"{place}[{index}]", marks)
        return found
    if type(asked) is type(recorded) and (asked == recorded or _is_hidden(asked, recorded, marks)):
        return []
    return [(place, _line(place, asked, recorded))]


def _is_hidden(asked: Any, recorded: Any, marks: str) -> bool:
    """Return True if a text equals a recorded text, except for secrets that are hidden there."""
    if not isinstance(recorded, str):
        return False
    parts = re.split(f"({marks})", recorded)
    if len(parts) == 1:
        return False
    pattern = "".join(_pattern(p) if n % 2 else re.escape(p) for n, p in enumerate(parts))
    return re.fullmatch(pattern, asked, re.DOTALL) is not None


def _pattern(mark: str) -> str:
    return f".{{{len(mark)}}}" if mark.startswith("*") else ".+"


def _named(sent: dict[str, str], recorded: dict[str, str], what: str) -> list[str]:
    """List the differences between sent and recorded headers, parameters or form fields.

    Possible secrets are hidden.
    """
    return [
        _line(place, _without_secret(place, sent), _without_secret(place, recorded), what)
        for place, _ in differing(sent, recorded, marks=_MARKS)
    ]


def _without_secret(name: str, values: dict[str, str]) -> Any:
    value = values.get(name)
    if value is None:
        return _ABSENT
    scheme, rest = scheme_of(value, name)
    is_shown = not is_secret_parameter(name) or is_mark(rest)
    return value if is_shown else f"{scheme}{HIDDEN}"


def _fields(query: str) -> dict[str, str]:
    return dict(parse_qsl(query, keep_blank_values=True))


def _headers(
    sent: dict[str, str], recorded: dict[str, str], callers: Collection[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the sent and the recorded headers that are compared, with lower-case names."""
    given = {name.lower(): value for name, value in sent.items()}
    known = {name.lower(): value for name, value in recorded.items() if _counts(name, callers)}
    compared = {
        name: value
        for name, value in given.items()
        if name in known or ((is_secret(name) or name == "content-type") and _counts(name, callers))
    }
    return compared, known


def _counts(name: str, callers: Collection[str]) -> bool:
    lower = name.lower()
    return lower not in _VARYING and lower not in callers and not lower.endswith(_VARYING_ENDS)


def _line(place: str, asked: Any, recorded: Any, what: str = "") -> str:
    where = f"{what}.{place}" if what else place
    return f"{where}: {_shown(asked)}, recorded {_shown(recorded)}"


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 80 else f"{text[:77]}…"

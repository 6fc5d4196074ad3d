"""Whom a request asks, by which API, for which model: read from the request alone.

An API is known by the end of its path, whoever serves it; the model stands in the path or in the
body. The provider is the one that made the request: rules go by its name.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from attrs import define, field

__all__ = ["Asked", "asked_of"]


@define(frozen=True)
class Asked:
    """A request as the judge wants it; `body` is JSON data."""

    provider: str
    api: str
    model: str
    body: Any = field(repr=False)


_APIS = (
    (re.compile(r"/chat/completions$"), "chat"),
    (re.compile(r"/api/chat$"), "chat"),
    (re.compile(r"/responses$"), "responses"),
    (re.compile(r"/messages$"), "messages"),
    (re.compile(r"/model/(?P<model>[^/]+)/converse(-stream)?$"), "converse"),
    (re.compile(r"/models/(?P<model>[^/:]+):(stream)?[gG]enerateContent$"), "generateContent"),
    (re.compile(r"/models/(?P<model>[^/:]+):(stream)?[rR]awPredict$"), "messages"),
)
"""How the path of each API ends."""


def asked_of(provider: str, url: str, body: bytes) -> Asked | None:
    """Read a request that `provider` was sent; `None` for one to no API that has rules."""
    path = urlsplit(url).path
    for pattern, api in _APIS:
        if match := pattern.search(path):
            try:
                data = msgspec.json.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                return None
            if not isinstance(data, dict):
                return None
            model = match.groupdict().get("model") or data.get("model") or ""
            return Asked(provider, api, unquote(str(model)), data)
    return None

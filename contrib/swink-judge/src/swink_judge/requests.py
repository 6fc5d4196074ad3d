"""Read the API and the model from a request.

The end of the URL's path identifies the API, on any server. The model is in the path or in the
body. The provider is not read from the request: it is the name of the plugin that made the request,
and selects the rules.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from attrs import define, field

__all__ = ["Asked", "asked_of", "is_judged"]


@define(frozen=True)
class Asked:
    """A request with the properties that rules check.

    `body` is JSON data. `streamed` is true if the request asks for a streamed answer.
    """

    provider: str
    api: str
    model: str
    body: Any = field(repr=False)
    wire_format: str = ""
    streamed: bool = True


_APIS = (
    (r"/chat/completions$", "chat", "openai-chat"),
    (r"/api/chat$", "chat", "ollama-chat"),
    (r"/v2/chat$", "v2", "cohere-chat"),
    (r"/responses$", "responses", "openai-responses"),
    (r"/messages$", "messages", "anthropic-messages"),
    (r"/model/(?P<model>[^/]+)/converse(?P<stream>-stream)?$", "converse", "bedrock-converse"),
    (
        r"/models/(?P<model>[^/:]+):(?P<stream>stream)?[gG]enerateContent$",
        "generateContent",
        "gemini-generate-content",
    ),
    (
        r"/publishers/mistralai/models/(?P<model>[^/:]+):(stream)?[rR]awPredict$",
        "chat",
        "openai-chat",
    ),
    (r"/models/(?P<model>[^/:]+):(stream)?[rR]awPredict$", "messages", "anthropic-messages"),
)
"""The end of each API's path, the API's name in rules, and the wire format."""

_STREAMED_UNLESS_SAID = "ollama-chat"


def is_judged(url: str) -> bool:
    """Return True if there are rules for the API at this URL."""
    return _api_at(url) is not None


def asked_of(provider: str, url: str, body: bytes) -> Asked | None:
    """Read a request of `provider`; return `None` if the API has no rules."""
    if (found := _api_at(url)) is None:
        return None
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if not isinstance(data, dict):
        return None
    api, wire_format, said = found
    model = unquote(str(said.get("model") or data.get("model") or ""))
    unless_said = wire_format == _STREAMED_UNLESS_SAID
    streamed = bool(said["stream"] if "stream" in said else data.get("stream", unless_said))
    return Asked(provider, api, model, data, wire_format, streamed)


def _api_at(url: str) -> tuple[str, str, dict[str, str | None]] | None:
    """Return the API at a URL, its wire format, and the values in the path, such as the model.

    Return `None` for a URL of no known API.
    """
    path = urlsplit(url).path
    for pattern, api, wire_format in _APIS:
        if match := re.search(pattern, path):
            return api, wire_format, match.groupdict()
    return None

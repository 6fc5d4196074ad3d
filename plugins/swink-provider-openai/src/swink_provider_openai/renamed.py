"""Parse answers whose fields have other names than in Chat Completions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from swink_core.providers import EventWriter

__all__ = ["with_names"]


INSIDE = "usage."
"""Field names with this prefix refer to fields of the `usage` object."""


def with_names(parser: Any, names: Mapping[str, str]) -> Any:
    """Return a parser for an endpoint with other field names.

    `names` maps the names of Chat Completions to those of the endpoint.
    """
    return _Parser(parser, names) if names else parser


class _Parser:
    """Renames the fields of an answer, and passes it to another parser."""

    def __init__(self, parser: Any, names: Mapping[str, str]) -> None:
        self._parser = parser
        self.writer = getattr(parser, "writer", EventWriter)
        ours = {theirs: name for name, theirs in names.items()}
        self._names = {t: name for t, name in ours.items() if not name.startswith(INSIDE)}
        self._counts = {
            t: name.removeprefix(INSIDE) for t, name in ours.items() if name.startswith(INSIDE)
        }

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`."""
        self._parser.feed(self._renamed(frame), out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Read an answer that was not streamed, and report its content to `out`."""
        self._parser.buffered(self._renamed(body), out)

    def _renamed(self, data: bytes) -> bytes:
        try:
            answer = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return data
        if not isinstance(answer, dict):
            return data
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict):
                for name in ("delta", "message"):
                    _rename(choice, name, self._names)
        answer = _with(self._names, answer)
        _rename(answer, "usage", self._counts)
        return msgspec.json.encode(answer)


def _rename(data: dict[str, Any], name: str, names: Mapping[str, str]) -> None:
    if isinstance(inner := data.get(name), dict):
        data[name] = _with(names, inner)


def _with(names: Mapping[str, str], data: dict[str, Any]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in data.items()}

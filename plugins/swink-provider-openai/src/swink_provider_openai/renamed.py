"""Answers whose fields have other names than Chat Completions gives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from swink_core.providers import EventWriter

__all__ = ["with_names"]


def with_names(parser: Any, names: Mapping[str, str]) -> Any:
    """Return a parser that finds fields by the endpoint's own names; `names` has them by ours."""
    return _Parser(parser, {theirs: ours for ours, theirs in names.items()}) if names else parser


class _Parser:
    """Renames fields in the data itself: what no dialect needs costs no other answer anything."""

    def __init__(self, parser: Any, names: Mapping[str, str]) -> None:
        self._parser = parser
        self._names = names

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Tell `out` what a frame says."""
        self._parser.feed(self._renamed(frame), out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Tell `out` what a response that is not streamed says."""
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
            for name in ("delta", "message"):
                if isinstance(choice, dict) and isinstance(choice.get(name), dict):
                    choice[name] = self._with_our_names(choice[name])
        return msgspec.json.encode(self._with_our_names(answer))

    def _with_our_names(self, data: dict[str, Any]) -> dict[str, Any]:
        return {self._names.get(name, name): value for name, value in data.items()}

"""Terms of an answer's bill that the request shows and no answer says.

A host that keeps to one region costs more with some models (OpenAI's guide "Data residency",
xAI's "Regional Endpoints"). Chat Completions of models that keep a prompt for hours over Responses
keeps none so long (OpenAI's guide "Prompt caching").
"""

from __future__ import annotations

from typing import Any

from swink_core.providers import EventWriter

__all__ = ["NONE_LONG", "REGIONAL", "with_terms"]

REGIONAL = {"region": "regional"}
NONE_LONG = {"cache_write_long": 0}


def with_terms(parser: Any, terms: dict[str, Any]) -> Any:
    """Return a parser whose answer's usage has these terms too, by the names of the prices."""
    return _Parser(parser, terms) if terms else parser


class _Parser:
    """Reads one answer as `parser` does, and adds to its usage."""

    def __init__(self, parser: Any, terms: dict[str, Any]) -> None:
        self._parser = parser
        self._terms = terms
        self._told = False

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Tell `out` what a frame says."""
        self._parser.feed(frame, out)
        self._tell(out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Tell `out` what a response that is not streamed says."""
        self._parser.buffered(body, out)
        self._tell(out)

    def _tell(self, out: EventWriter) -> None:
        if not self._told and out.usage_seen is not None:
            self._told = True
            out.usage(extra=self._terms)

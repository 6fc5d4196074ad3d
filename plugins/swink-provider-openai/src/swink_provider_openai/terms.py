"""Add to an answer's usage those facts that affect the price and that only the request contains.

One such fact is the host: some models cost more at a host that processes data in one region
(OpenAI's guide "Data residency", xAI's "Regional Endpoints"). Another is the API: some models cache
a prompt for hours over the Responses API but for a shorter time over Chat Completions (OpenAI's
guide "Prompt caching").
"""

from __future__ import annotations

from typing import Any

from swink_core.providers import EventWriter

__all__ = ["NONE_LONG", "REGIONAL", "with_terms"]

REGIONAL = {"region": "regional"}
NONE_LONG = {"cache_write_long": 0}


def with_terms(parser: Any, terms: dict[str, Any]) -> Any:
    """Wrap a parser so that it adds `terms` to the answer's usage.

    The keys of `terms` are names of prices.
    """
    return _Parser(parser, terms) if terms else parser


class _Parser:
    """Parses one answer with `parser`, and adds `terms` to the answer's usage."""

    def __init__(self, parser: Any, terms: dict[str, Any]) -> None:
        self._parser = parser
        self.writer = getattr(parser, "writer", EventWriter)
        self._terms = terms
        self._told = False

    def feed(self, frame: bytes, out: EventWriter) -> None:
        """Report the content of a frame to `out`."""
        self._parser.feed(frame, out)
        self._tell(out)

    def buffered(self, body: bytes, out: EventWriter) -> None:
        """Read an answer that was not streamed, and report its content to `out`."""
        self._parser.buffered(body, out)
        self._tell(out)

    def _tell(self, out: EventWriter) -> None:
        if not self._told and out.usage_seen is not None:
            self._told = True
            out.usage(extra=self._terms)

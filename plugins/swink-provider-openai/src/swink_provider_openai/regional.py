"""Answers of hosts that keep to one region, which some models cost more for.

Sources: OpenAI's guide "Data residency", xAI's "Regional Endpoints". No answer says so itself; the
address that was asked does.
"""

from __future__ import annotations

from typing import Any

from swink_core.providers import EventWriter

__all__ = ["RegionalParser"]

TERM = {"region": "regional"}
"""What of an answer's usage the prices of the catalogue know it by."""


class RegionalParser:
    """Reads one answer as `parser` does, and adds to its usage that it is regional."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
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
            out.usage(extra=TERM)

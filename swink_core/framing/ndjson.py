"""Newline-delimited JSON: one value a line (https://github.com/ndjson/ndjson-spec).

A line ends at LF alone; CR is whitespace to JSON, so it is dropped only where it precedes LF. The
unterminated end of a read waits in a bytearray that is appended to and never searched again:
only new bytes are split, which keeps the cost linear however small the reads are.
"""

from __future__ import annotations

import itertools

from swink_core.framing.frame import DEFAULT_FRAME_LIMIT, FrameTooLong

# An int, because `in` with bytes first fails to convert them to one, at 80 ns a read.
_CR = 0x0D


class NDJSONDecoder:
    """The decoder of newline-delimited JSON: one frame for each line that is not blank.

    `limit` is the longest line in bytes, its LF not counted. A blank line is empty or holds
    nothing but whitespace.
    """

    __slots__ = ("_limit", "_partial")

    def __init__(self, limit: int = DEFAULT_FRAME_LIMIT) -> None:
        self._limit = limit
        self._partial = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes, in order.

        Raises `FrameTooLong` when a line, complete or not, exceeds the limit.
        """
        longest_possible = len(self._partial) + len(data)
        lines = data.split(b"\n")
        rest = lines.pop()
        if lines and self._partial:
            lines[0] = bytes(self._partial) + lines[0]
            self._partial.clear()
        self._partial += rest
        if longest_possible > self._limit:
            whole = list(itertools.takewhile(lambda line: len(line) <= self._limit, lines))
            if len(whole) < len(lines) or len(self._partial) > self._limit:
                error = FrameTooLong("an NDJSON line", self._limit)
                error.frames = _stripped(whole)
                raise error
        # A carriage return that ends the first line may have come with an earlier read.
        if _CR in data or (lines and lines[0].endswith(b"\r")):
            return _stripped(lines)
        return [line for line in lines if line and not line.isspace()]

    def finish(self) -> list[bytes]:
        """Return the line that end of input left without its LF, if it is not blank."""
        line = bytes(self._partial)
        self._partial.clear()
        return [line] if line.strip() else []


def _stripped(lines: list[bytes]) -> list[bytes]:
    return [line.removesuffix(b"\r") for line in lines if line and not line.isspace()]

"""Newline-delimited JSON: one value per line (https://github.com/ndjson/ndjson-spec).

Only LF ends a line. CR is whitespace in JSON, so it is removed only before LF. An unterminated line
at the end of a read is kept in a bytearray. Later reads are appended to this bytearray, and only
new bytes are searched for LF, so that decoding takes linear time however small the reads are.
"""

from __future__ import annotations

import itertools

from swink_core.framing.frame import DEFAULT_FRAME_LIMIT, FrameTooLong

# An int, because `in` with bytes first tries to convert them to one, which costs 80 ns per read.
_CR = 0x0D


class NDJSONDecoder:
    """Splits newline-delimited JSON into frames: one for each line that is not blank.

    `limit` is the longest line in bytes, without its LF. A line that is empty or contains only
    whitespace is blank.
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
        # The carriage return at the end of the first line may have arrived with an earlier read.
        if _CR in data or (lines and lines[0].endswith(b"\r")):
            return _stripped(lines)
        return [line for line in lines if line and not line.isspace()]

    def finish(self) -> list[bytes]:
        """Return a list with the last line if it has no LF and is not blank, or an empty list."""
        line = bytes(self._partial)
        self._partial.clear()
        return [line] if line.strip() else []


def _stripped(lines: list[bytes]) -> list[bytes]:
    return [line.removesuffix(b"\r") for line in lines if line and not line.isspace()]

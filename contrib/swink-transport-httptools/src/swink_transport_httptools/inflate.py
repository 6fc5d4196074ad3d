"""Decompress the body of a response, in pieces of a limited size."""

from __future__ import annotations

import zlib

CODINGS = ("gzip", "deflate")
"""The content codings that requests accept and that `Inflater` decompresses."""

MOST_INFLATED = 256 * 1024
"""The maximum number of bytes that one read returns: a small input may decompress to gigabytes."""

WINDOW = 16 * 1024
"""The maximum number of compressed bytes given to zlib at once.

zlib copies all input after the end of a member, so large inputs with many members would be slow.
"""

MOST_MEMBERS = 1024
"""The most members (RFC 1952 section 2.2) in one piece of input."""


class Inflater:
    """Decompresses gzip, and deflate with or without the zlib header (RFC 9110 section 8.4.1)."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._bits = 31 if coding == "gzip" else 15
        self._zlib = zlib.decompressobj(self._bits)
        self._input = b""
        self._position = 0
        self._members = 0
        self._has_more = False
        self._has_begun = False
        self._error: zlib.error | None = None

    def feed(self, data: bytes) -> None:
        """Add compressed bytes, which must not be empty."""
        if not self._has_begun:
            self._has_begun = True
            if self._coding == "deflate" and data[0] & 0xF != 8:  # RFC 1950 section 2.2
                self._bits = -15
                self._zlib = zlib.decompressobj(self._bits)
        self._input = self._input[self._position :] + data
        self._position = 0
        self._members = 0

    def read(self) -> bytes:
        """Return decompressed bytes; no bytes if more input is needed.

        Raises zlib.error for invalid data, once all bytes before the invalid part have been
        returned.
        """
        if self._error is not None:
            raise self._error
        pieces: list[bytes] = []
        room = MOST_INFLATED
        while room and (self._has_more or self._position < len(self._input)):
            try:
                piece = self._inflate(room)
            except zlib.error as error:
                self._error = error
                break
            if piece:
                pieces.append(piece)
                room -= len(piece)
        if self._error is not None and not pieces:
            raise self._error
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _inflate(self, room: int) -> bytes:
        if self._zlib.eof:
            self._members += 1
            if self._members > MOST_MEMBERS:
                raise zlib.error(f"more than {MOST_MEMBERS} members")
            self._zlib = zlib.decompressobj(self._bits)
        window = self._input[self._position : self._position + WINDOW]
        piece = self._zlib.decompress(window, room)
        left = self._zlib.unused_data if self._zlib.eof else self._zlib.unconsumed_tail
        self._position += len(window) - len(left)
        # zlib may have more output even after it has consumed all input
        self._has_more = len(piece) == room and not self._zlib.eof
        return piece

    def finish(self) -> None:
        """Raise zlib.error if deflate data is truncated; gzip data is not checked."""
        if self._coding == "deflate" and self._has_begun and not self._zlib.eof:
            raise zlib.error("the input ends in the middle")

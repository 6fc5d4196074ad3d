"""Unicode's compatibility form of a client's text, in linear time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

from swink_core import UsageError

__all__ = ["MOST_MARKS", "PIECE", "compatible"]

MOST_GROWTH = 3
"""The maximum length of a long text's compatibility form, as a multiple of the text's length.

For example, U+FDFA becomes 18 characters, so 24 MB of this character would need 3 GB of memory.
"""

PIECE = 16_384
"""The number of characters to normalize at a time. Meanwhile, no other thread can run."""

MOST_MARKS = 30
"""The maximum number of combining marks to keep in a row, as in Unicode's Stream-Safe Text Format.

Source: https://www.unicode.org/reports/tr15/#Stream_Safe_Text_Format
"""

_PLANES = 0x20000
"""All combining marks of Unicode have code points below this number."""

_BASIC = 0x10000
"""A set of code points below this number is searched 40 times faster than one with higher ones."""


def compatible(text: str) -> str:
    """Return a text in the form NFKC, with at most `MOST_MARKS` combining marks in a row.

    Normalization sorts the marks of a row in quadratic time, so that 80,000 marks take 15 seconds.
    Raises UsageError for a long text that grows by more than `MOST_GROWTH`.
    """
    if text.isascii():
        return text
    if len(text) <= PIECE:
        return _normal(text)
    pieces, size = [], 0
    for piece in _pieces(text):
        pieces.append(_normal(piece))
        size += len(pieces[-1])
        if size > MOST_GROWTH * len(text):
            raise UsageError("a text has too many characters that stand for several others")
    return "".join(pieces)


def _normal(text: str) -> str:
    end = _BASIC if max(text, default="") < chr(_BASIC) else _PLANES
    shortened = _long_rows(end).sub(lambda row: row[0][:MOST_MARKS], text)
    return unicodedata.normalize("NFKC", shortened)


def _pieces(text: str) -> Iterator[str]:
    """Divide a text into pieces, only between characters that normalization does not compose."""
    at = 0
    while at < len(text):
        end = at + PIECE
        while end < len(text) and not _is_start(text[end - 4 : end], text[end]):
            end += 1
        yield text[at:end]
        at = end


def _is_start(before: str, letter: str) -> bool:
    """Return True if normalization does not compose a letter with the letters before it."""
    if unicodedata.combining(letter) or _is_mark(letter):
        return False
    apart = [unicodedata.normalize("NFKC", one) for one in (before, letter)]
    return unicodedata.normalize("NFKC", before + letter) == "".join(apart)


@cache
def _long_rows(end: int) -> re.Pattern[str]:
    """Return a pattern for rows of more than `MOST_MARKS` combining marks below a code point.

    Characters whose decomposition begins with a combining mark count as well.
    """
    marks = re.escape("".join(filter(_is_mark, map(chr, range(0x300, end)))))
    # the mark in front lets `re` skip other characters without an attempt at each of them
    return re.compile(f"[{marks}][{marks}]{{{MOST_MARKS},}}")


def _is_mark(letter: str) -> bool:
    if not (unicodedata.combining(letter) or unicodedata.decomposition(letter)):
        return False
    return unicodedata.combining(unicodedata.normalize("NFKD", letter)[0]) != 0

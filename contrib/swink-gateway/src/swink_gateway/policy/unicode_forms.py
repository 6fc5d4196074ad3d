"""Unicode's compatibility form of a client's text, in linear time."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

__all__ = ["MOST_MARKS", "compatible"]

MOST_MARKS = 30
"""The most combining marks in a row that are kept, as in Unicode's Stream-Safe Text Format.

Source: https://www.unicode.org/reports/tr15/#Stream_Safe_Text_Format
"""

_PLANES = 0x20000
"""All combining marks of Unicode have code points below this number."""


def compatible(text: str) -> str:
    """Return a text in the form NFKC, with at most `MOST_MARKS` combining marks in a row.

    Normalization sorts the marks of a row in quadratic time, so that 80,000 marks take 15 seconds.
    """
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _long_rows().sub(lambda row: row[0][:MOST_MARKS], text))


@cache
def _long_rows() -> re.Pattern[str]:
    """Return a pattern for rows of more than `MOST_MARKS` combining marks.

    Characters whose decomposition begins with a combining mark count as well.
    """
    marks = "".join(filter(_is_mark, map(chr, range(0x300, _PLANES))))
    return re.compile(f"[{re.escape(marks)}]{{{MOST_MARKS + 1},}}")


def _is_mark(letter: str) -> bool:
    if not (unicodedata.combining(letter) or unicodedata.decomposition(letter)):
        return False
    return unicodedata.combining(unicodedata.normalize("NFKD", letter)[0]) != 0

"""The vendor's own tokenizer: simple, documented, and the same for prompts, output and bills.

A text is split into pieces, from left to right; the pieces joined are the text:

* one ideograph, kana or Hangul syllable: 1 token;
* up to five letters of any other script, with one space before them: 1 token;
* up to three digits: 1 token;
* up to sixteen characters of white space: 1 token;
* any other character: 1 token, and 2 outside of the Basic Multilingual Plane (emoji).

A message costs `PER_MESSAGE` tokens more than its text, and a tool `PER_TOOL` more than its
definition as compact JSON. Images cost what the module `media` computes, other media a fixed number
of tokens: `DOCUMENT` and `AUDIO`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

__all__ = ["AUDIO", "DOCUMENT", "IMAGE", "PER_MESSAGE", "PER_TOOL", "count", "pieces"]

PER_MESSAGE = 3
PER_TOOL = 8
IMAGE = 258
DOCUMENT = 1_500
AUDIO = 400

_WIDE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_PIECE = re.compile(rf"[{_WIDE}]| ?[^\W\d_{_WIDE}]{{1,5}}|\d{{1,3}}|\s{{1,16}}|.", re.DOTALL)
_LAST_OF_BASIC_PLANE = "\uffff"


def pieces(text: str) -> Iterator[tuple[str, int]]:
    """Split a text into pieces, each with its number of tokens."""
    for match in _PIECE.finditer(text):
        piece = match.group()
        yield piece, 2 if piece > _LAST_OF_BASIC_PLANE and len(piece) == 1 else 1


@lru_cache(maxsize=4096)
def count(text: str) -> int:
    """Count the tokens of a text."""
    return sum(tokens for _, tokens in pieces(text))

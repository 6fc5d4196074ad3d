"""Compute where lines of text wrap on a terminal, by the width of characters."""

from __future__ import annotations

import re

from rich.cells import cell_len, split_graphemes

__all__ = ["breaks", "folds"]

_IDEOGRAPHS = r"\u2e80-\u9fff\uac00-\ud7a3\uf900-\ufaff\uff01-\uff60\U00020000-\U0003fffd"
_WORD = re.compile(rf"[{_IDEOGRAPHS}] *|[^ {_IDEOGRAPHS}]+ *| +")


def breaks(text: str, width: int) -> list[int]:
    """Return the offsets in a text at which it wraps to a new line, between words if possible."""
    if cell_len(text) <= width:
        return []
    found = []
    column = 0
    for match in _WORD.finditer(text):
        word = match[0]
        length = cell_len(word.rstrip(" "))
        if column and length and column + length > width:
            found.append(match.start())
            column = 0
        if length > width:
            inside = folds(word.rstrip(" "), width)
            found += [match.start() + at for at in inside]
            length = cell_len(word[inside[-1] :].rstrip(" ")) if inside else length
        column += length + len(word) - len(word.rstrip(" "))
    return found


def folds(text: str, width: int) -> list[int]:
    """Return the offsets in a text at which it wraps to a new line, between any two characters."""
    if cell_len(text) <= width:
        return []
    found = []
    column = 0
    for begin, _, length in split_graphemes(text)[0]:
        if column and column + length > width:
            found.append(begin)
            column = 0
        column += length
    return found

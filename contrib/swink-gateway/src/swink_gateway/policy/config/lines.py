"""Find the line numbers of values in a TOML file.

Python's parser does not report line numbers, so this module parses prefixes of the file: its first
line, its first two lines, and so on. Open brackets at the end of a prefix are closed first. A value
begins on the last line of the shortest prefix that contains the value.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

__all__ = ["Path", "line_of", "written"]

Path = tuple[str | int, ...]
"""The path of a value: keys of tables and indices of lists."""

DEEPEST = 4
"""The maximum number of brackets of nested lists that may be open at the end of a prefix."""


def written(path: Path) -> str:
    """Format a path in TOML notation."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            plain = step.replace("-", "_").isidentifier() or step.isdecimal()
            quoted = step if plain else f'"{step}"'
            text += f".{quoted}" if text else quoted
    return text


def line_of(text: str, path: Path) -> int:
    """Return the line, from 1, on which a value or its nearest enclosing table begins."""
    lines = text.splitlines()
    whole = tomllib.loads(text)
    while path and not _has(whole, path):
        path = path[:-1]
    if not path:
        return 1
    reads: dict[int, Any] = {}

    def read(count: int) -> Any:
        if count not in reads:
            reads[count] = _parsed("\n".join(lines[:count]))
        return reads[count]

    def complete(count: int) -> int:
        return next(n for n in range(count, -1, -1) if read(n) is not None)

    end = _first(len(lines), lambda count: _has(read(complete(count)), path))
    return complete(end - 1) + 1


def _first(most: int, holds: Callable[[int], bool]) -> int:
    """Return the smallest number below `most` for which `holds` is true, or else `most`.

    `holds` must be true for all greater numbers as well, because this is a binary search.
    """
    least = 0
    while least < most:
        middle = (least + most) // 2
        least, most = (least, middle) if holds(middle) else (middle + 1, most)
    return least


def _parsed(text: str) -> Any:
    for depth in range(DEEPEST + 1):
        try:
            return tomllib.loads(text + "\n" + "]" * depth)
        except tomllib.TOMLDecodeError:
            continue
    return None


def _has(data: Any, path: Path) -> bool:
    for step in path:
        try:
            data = data[step]
        except (LookupError, TypeError):
            return False
    return True

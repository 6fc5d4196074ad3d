"""Split and merge the JSON data of frames, because servers may frame an answer differently."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from swink_testing.conformance.answers.recorded_answers import (
    GONE,
    Path,
    at,
    values_in,
    with_value,
)

__all__ = ["ended_apart", "joined", "rest_of"]

_OF_A_FRAME = re.compile("creat|time|count|token|number")
"""Matches names of fields whose values differ between frames of the same kind."""


def ended_apart(data: Any, path: Path) -> tuple[Any, Any | None]:
    """Split the data of an answer's last frame into content and end (finish reason and usage).

    `path` locates the answer's last text in the data. The end is `None` if the frame has no finish
    reason.
    """
    if not any(at(data, each) for each in _paths(data, r"reason$")):
        return data, None
    begun = end = data
    for each in _paths(data, r"reason$"):
        begun = with_value(begun, each, None)
    for each in _paths(data, r"usage"):
        begun = with_value(begun, each, GONE)
    lists = [depth for depth, step in enumerate(path) if isinstance(step, int)]
    for depth in reversed(lists):
        has_reason = any(_paths(at(end, path[:depth]), r"reason$"))
        if not has_reason and isinstance(path[depth - 1], str):
            return begun, with_value(end, path[:depth], GONE)
    return begun, with_value(end, path, "")


def _paths(data: Any, name: str) -> list[Path]:
    """Return the paths of fields whose names, in lower case and without `_`, match a pattern."""
    found: list[Path] = []
    for path, _ in values_in(data):
        is_inner = any(path[:depth] in found for depth in range(len(path)))
        last = path[-1] if path else 0
        if is_inner or isinstance(last, int):
            continue
        if re.search(name, last.lower().replace("_", "")):
            found.append(path)
    return found


def rest_of(data: Any, path: Path, begun: int) -> Iterator[Any]:
    """Yield possible next frames after a frame with the first `begun` characters of a text.

    Each of them contains the rest of the text. In some of them, the fields `name` and `id` around
    the text are left out.
    """
    for left_out in ((), ("name",), ("name", "id")):
        rest = with_value(data, path, at(data, path)[begun:])
        found: Any = rest
        changed = not left_out
        for depth, step in enumerate(path):
            if isinstance(step, int):
                found[:] = [found[step]]
                found = found[0]
                continue
            for name in left_out if depth else ():
                changed |= name != step and found.pop(name, None) is not None
            found = found[step]
        if changed:
            yield rest


def joined(one: Any, other: Any) -> Any | None:
    """Merge the JSON data of two frames; `None` if they cannot be merged."""
    if isinstance(one, dict) and isinstance(other, dict):
        both: dict[str, Any] = {**one, **other}
        for name in one.keys() & other.keys():
            if one[name] in (None, "", [], {}) or other[name] in (None, "", [], {}):
                both[name] = other[name] or one[name]
            elif isinstance(one[name], dict | list):
                both[name] = joined(one[name], other[name])
                if both[name] is None:
                    return None
            elif one[name] != other[name] and not _OF_A_FRAME.search(name.lower()):
                return None
        return both
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        each = [joined(*pair) for pair in zip(one, other, strict=True)]
        return None if None in each else each
    return None

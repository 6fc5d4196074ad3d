"""JSON data of frames, split and joined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, TypeAlias

from swink_testing.conformance.answers.edited_answers import places, remove

__all__ = ["Path", "at", "ended_apart", "joined", "rest_of", "texts_in", "with_value"]

Path: TypeAlias = tuple[str | int, ...]

_OF_A_FRAME = re.compile("creat|time|count|token|number")
"""Names of what differs from frame to frame and says nothing of what it is."""


def at(data: Any, path: Path) -> Any:
    """Return the value at a path in JSON data."""
    for step in path:
        data = data[step]
    return data


def texts_in(data: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield each text in JSON data, and its place."""
    if isinstance(data, str):
        yield path, data
    elif isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from texts_in(value, (*path, step))


def with_value(data: Any, path: Path, value: Any) -> Any:
    """Return a copy of JSON data with another value at a place."""
    if not path:
        return value
    data = deepcopy(data)
    at(data, path[:-1])[path[-1]] = value
    return data


def ended_apart(data: Any, path: Path) -> tuple[Any, Any | None]:
    """Return a frame's data without the end of the answer, and the end alone.

    `path` is where the frame has the answer's last text. The end is `None` where the frame does
    not say a reason to stop.
    """
    if not any(holder[name] for holder, name in places(data, _ends)):
        return data, None
    begun, end = deepcopy(data), deepcopy(data)
    for holder, name in list(places(begun, _ends)):
        holder[name] = None
    for holder, name in list(places(begun, lambda name, value: "usage" in name)):
        remove(holder, name)
    lists = [depth for depth, step in enumerate(path) if isinstance(step, int)]
    for depth in reversed(lists):
        if not any(places(at(end, path[:depth]), _ends)) and isinstance(path[depth - 1], str):
            remove(at(end, path[: depth - 1]), str(path[depth - 1]))
            return begun, end
    return begun, with_value(end, path, "")


def _ends(name: str, value: Any) -> bool:
    return name.endswith("reason")


def rest_of(data: Any, path: Path, begun: int) -> Iterator[Any]:
    """Yield the possible next frames after one with so many characters of the text.

    Each has the rest of the text, with or without the names and ids around it.
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
    """Return JSON data that says what two frames say; `None` where they cannot be one."""
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

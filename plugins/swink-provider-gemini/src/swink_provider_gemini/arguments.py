"""Convert the pieces of a function call's arguments to pieces of JSON text.

With `streamFunctionCallArguments`, Vertex AI sends pairs of a path and a value, such as
`$.recipe.steps[2]` and a number; a string arrives in several pieces. Source:
https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/Content#PartialArg. The
values arrive in the order of the JSON text, so each path shows which objects and arrays have ended
and which begin. A value that belongs to an object which has already ended cannot be written. In the
recorded answers, the API sends no such value.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

__all__ = ["ArgumentText", "OutOfOrder"]

_STEP = re.compile(
    r"\.(?P<name>[^.\[\]]+)|\[(?P<index>\d{1,9})\]|\[(?P<quoted>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\]"
)
_ESCAPED = re.compile(r"\\(.)")

_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class OutOfOrder(ValueError):
    """A value belongs to an object or array that has ended, or its path is invalid."""


class _Container:
    def __init__(self, step: str | int) -> None:
        self.is_list = isinstance(step, int)
        self.names: set[str | int] = set()

    def enter(self, step: str | int) -> str:
        """Return the text before a member's value: a comma if needed, and an object's key."""
        in_turn = step == len(self.names) if self.is_list else step not in self.names
        if isinstance(step, int) is not self.is_list or not in_turn:
            raise OutOfOrder(str(step))
        comma = "," if self.names else ""
        self.names.add(step)
        return comma if self.is_list else f"{comma}{_json(step)}:"


class ArgumentText:
    """Writes one call's arguments. Each method returns the text to append."""

    def __init__(self) -> None:
        self._containers: list[_Container] = []
        self._path: list[str | int] = []
        self._in_string = False

    def add(self, piece: dict[str, Any]) -> str:
        """Write one `PartialArg`. Raises OutOfOrder if the value cannot be appended."""
        path = _steps(str(piece.get("jsonPath")))
        kind = next((name for name in _VALUES if name in piece), None)
        if kind == "stringValue":
            return self.string(path, str(piece[kind]), bool(piece.get("willContinue")))
        return self.value(path, None if kind in (None, "nullValue") else piece[kind])

    def value(self, path: list[str | int], value: Any) -> str:
        """Write a whole value at a path. Raises OutOfOrder if the value cannot be appended."""
        return self._move(path) + _json(value)

    def string(self, path: list[str | int], piece: str, more: bool) -> str:
        """Write a piece of a string; `more` says whether another piece follows."""
        continues = self._in_string and path == self._path
        text = "" if continues else self._move(path) + '"'
        self._in_string = more
        return text + _json(piece)[1:-1] + ("" if more else '"')

    def close(self) -> str:
        """Close all open objects and arrays. Without any arguments, write an empty object."""
        return self._end_string() + self._leave(0) if self._path else "{}"

    def _move(self, path: list[str | int]) -> str:
        """Close and open objects and arrays as necessary to write the value at a path."""
        text = self._end_string()
        shared = 0
        for old, new in zip(self._path[:-1], path[:-1], strict=False):
            if old != new:
                break
            shared += 1
        if self._containers:
            text += self._leave(shared + 1)
        for step in path[shared:]:
            if len(self._containers) == shared:
                container = _Container(step)
                self._containers.append(container)
                text += "[" if container.is_list else "{"
            text += self._containers[-1].enter(step)
            shared += 1
        self._path = path
        return text

    def _leave(self, depth: int) -> str:
        over, self._containers = self._containers[depth:], self._containers[:depth]
        return "".join("]" if container.is_list else "}" for container in reversed(over))

    def _end_string(self) -> str:
        text = '"' if self._in_string else ""
        self._in_string = False
        return text


def _steps(path: str) -> list[str | int]:
    """Split a JSON path (RFC 9535) into object keys and array indexes.

    The path must select one value and begin with an object key. For other paths, raises OutOfOrder.
    """
    steps: list[str | int] = []
    at = 1
    while at < len(path) and (step := _STEP.match(path, at)) is not None:
        name, index, quoted = step.group("name", "index", "quoted")
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name if quoted is None else _ESCAPED.sub(r"\1", quoted[1:-1]))
        at = step.end()
    if not path.startswith("$") or at < len(path) or not steps or isinstance(steps[0], int):
        raise OutOfOrder(path)
    return steps


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()

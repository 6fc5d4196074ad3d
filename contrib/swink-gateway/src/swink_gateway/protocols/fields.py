"""`Fields`: a reader of a JSON object that keeps track of unread fields.

    said = Fields(body)
    model = said.text("model")
    for part in said.objects("parts"):
        ...
    said.dropped            # ["metadata", "parts[2].mood"]

A value of the wrong type raises `BadRequest` with the path of the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from swink_gateway.protocols import BadRequest

__all__ = ["Fields"]

T = TypeVar("T")


class Fields:
    """A reader of an object; fields that are never read count as dropped.

    An absent field and null are equivalent. Readers of nested objects share the list of dropped
    fields.
    """

    def __init__(self, data: Any, path: str = "", parent: Fields | None = None) -> None:
        if not isinstance(data, dict):
            raise BadRequest(f"{path or 'the body'} is {_kind(data)}; expected an object")
        self._data = data
        self._path = path
        self._taken: set[str] = set()
        self._read: list[Fields] = []
        self._lost: list[str] = []
        if parent is not None:
            parent._read.append(self)

    def __contains__(self, name: str) -> bool:
        return self._data.get(name) is not None

    def place(self, name: str) -> str:
        """Return the path of a field in the body."""
        return f"{self._path}.{name}" if self._path else name

    def take(self, name: str, kind: type[T] | tuple[type[T], ...]) -> T | None:
        """Return the value of a field, which must be a `kind`; `None` if the field is absent."""
        self._taken.add(name)
        value = self._data.get(name)
        if value is None:
            return None
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(dict.fromkeys(_WORDS.get(one, one.__name__) for one in kinds))
            raise BadRequest(f"{self.place(name)} is {_kind(value)}; expected {names}")
        return value

    def text(self, name: str) -> str | None:
        """Return a string; `None` if it is absent."""
        return self.take(name, str)

    def number(self, name: str) -> int | float | None:
        """Return a number; `None` if it is absent."""
        return self.take(name, (int, float))

    def whole_number(self, name: str) -> int | None:
        """Return a whole number, even if it is written as a float; `None` if it is absent."""
        value = self.take(name, (int, float))
        return None if value is None else int(value)

    def flag(self, name: str) -> bool | None:
        """Return a boolean; `None` if it is absent."""
        return self.take(name, bool)

    def data(self, name: str) -> Any:
        """Return the value of a field of any type, unchanged."""
        self._taken.add(name)
        return self._data.get(name)

    def object(self, name: str) -> Fields | None:
        """Return a reader of a nested object; `None` if it is absent."""
        value = self.take(name, dict)
        return None if value is None else type(self)(value, self.place(name), self)

    def objects(self, name: str) -> Iterator[Fields]:
        """Yield a reader for each object in a list; nothing if the list is absent."""
        for number, value in enumerate(self.take(name, list) or ()):
            yield type(self)(value, f"{self.place(name)}[{number}]", self)

    def required(self, name: str) -> str:
        """Return a required string."""
        value = self.text(name)
        if not value:
            raise BadRequest(f"{self.place(name)} is missing; expected a string")
        return value

    def rest(self) -> dict[str, Any]:
        """Return all fields that have not been read, unchanged, and mark them as read."""
        left = {n: v for n, v in self._data.items() if n not in self._taken and v is not None}
        self._taken.update(left)
        return left

    def all(self) -> dict[str, Any]:
        """Return the whole object, unchanged, and mark all fields as read."""
        self._taken.update(self._data)
        return self._data

    def drop(self, name: str = "", why: str = "") -> None:
        """Report a field, or the whole object, as dropped; `why` is appended to the path."""
        if name:
            self._taken.add(name)
        else:
            self._taken.update(self._data)
        self._lost.append((self.place(name) if name else self._path) + (f" ({why})" if why else ""))

    @property
    def dropped(self) -> list[str]:
        """The paths of fields that were not read or were dropped."""
        left = [self.place(n) for n, v in self._data.items() if n not in self._taken and _says(v)]
        return [*self._lost, *left, *(path for one in self._read for path in one.dropped)]


def _says(value: Any) -> bool:
    return value is not None and value not in ([], {}, "")


_WORDS: dict[type, str] = {
    str: "a string", int: "a number", float: "a number", bool: "a boolean", dict: "an object",
    list: "a list",
}  # fmt: skip


def _kind(value: Any) -> str:
    return "null" if value is None else _WORDS.get(type(value), type(value).__name__)

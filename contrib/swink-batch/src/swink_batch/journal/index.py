"""A table of ids and of where their answers are, in some twenty-six bytes each.

Ten million ids fit into memory. Open addressing with linear probing over flat arrays. An id stands
as 64 bits of a digest; that two of ten million ids share one is less likely than one in three
hundred thousand. It is split into parts, so that growing one of them does not keep the event loop
waiting.
"""

from __future__ import annotations

from array import array

__all__ = ["Index"]

PARTS = 64

SMALLEST = 32
"""Slots of a part at first."""

FULL = 0.75
"""The share of slots in use from which on a part is made larger."""

LARGER = 1.5
"""How many times as large it is then."""

MET = 1 << 62
"""The bit of a value that says that the id was met in this run; that above it, once more."""

MARKS = MET | MET << 1


class _Part:
    __slots__ = ("keys", "used", "values")

    def __init__(self, slots: int) -> None:
        self.keys = array("Q", bytes(8 * slots))
        self.values = array("Q", bytes(8 * slots))
        self.used = 0

    def slot(self, key: int) -> int:
        keys = self.keys
        at = key // PARTS % len(keys)
        while (found := keys[at]) and found != key:
            at = at + 1 if at + 1 < len(keys) else 0
        return at


class Index:
    """From an id's digest to a value of 62 bits, and two marks; 0 stands for an unknown one."""

    def __init__(self) -> None:
        self._parts = [_Part(SMALLEST) for _ in range(PARTS)]

    def __len__(self) -> int:
        return sum(part.used for part in self._parts)

    @property
    def size(self) -> int:
        """The bytes that it takes."""
        return sum(16 * len(part.keys) for part in self._parts)

    def get(self, key: int) -> int:
        """Return the value of an id; 0 for an unknown one."""
        key = key or 1
        part = self._parts[key % PARTS]
        return part.values[part.slot(key)] & ~MARKS

    def put(self, key: int, value: int) -> None:
        """Keep a value, in the place of what was kept for the id."""
        key = key or 1
        part, at = self._place(key)
        part.values[at] = part.values[at] & MARKS | value

    def meet(self, key: int, again: bool = False) -> bool:
        """Mark an id as met; tell whether it is for the first time. `again` has marks of its own,
        for who goes through the ids once more."""
        key, mark = key or 1, MET << again
        part, at = self._place(key)
        value = part.values[at]
        part.values[at] = value | mark
        return not value & mark

    def _place(self, key: int) -> tuple[_Part, int]:
        """Return the slot of a key, which is made if there is none."""
        part = self._parts[key % PARTS]
        at = part.slot(key)
        if not part.keys[at]:
            if part.used >= FULL * len(part.keys):
                part = self._parts[key % PARTS] = _grown(part)
                at = part.slot(key)
            part.keys[at] = key
            part.used += 1
        return part, at


def _grown(part: _Part) -> _Part:
    larger = _Part(int(LARGER * len(part.keys)))
    for key, value in zip(part.keys, part.values, strict=True):
        if key:
            at = larger.slot(key)
            larger.keys[at], larger.values[at] = key, value
    larger.used = part.used
    return larger

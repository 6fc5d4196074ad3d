"""A hash table that maps ids to the positions of their answers, with 26 bytes per entry.

Ten million ids fit into memory. The table uses open addressing with linear probing over flat
arrays. An id is represented by a 64-bit digest; the probability that two of ten million ids collide
is below one in three hundred thousand. The table is split into parts that grow one at a time, so
that growing a part blocks the event loop only briefly.
"""

from __future__ import annotations

from array import array

__all__ = ["Index"]

PARTS = 64

SMALLEST = 32
"""The initial number of slots in a part."""

FULL = 0.75
"""The load factor (used share of the slots) at which a part is enlarged."""

LARGER = 1.5
"""The factor by which a part is enlarged."""

MET = 1 << 62
"""The bit that marks an id as seen in this run; the next higher bit marks it in a second pass."""

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
    """Maps an id's digest to a value of 62 bits and two flags. An unknown id has the value 0."""

    def __init__(self) -> None:
        self._parts = [_Part(SMALLEST) for _ in range(PARTS)]

    def __len__(self) -> int:
        return sum(part.used for part in self._parts)

    @property
    def size(self) -> int:
        """The size of the table in bytes."""
        return sum(16 * len(part.keys) for part in self._parts)

    def get(self, key: int) -> int:
        """Return the value of an id; 0 if the id is unknown."""
        key = key or 1
        part = self._parts[key % PARTS]
        return part.values[part.slot(key)] & ~MARKS

    def put(self, key: int, value: int) -> None:
        """Store a value, replacing an earlier one for the id."""
        key = key or 1
        part, at = self._place(key)
        part.values[at] = part.values[at] & MARKS | value

    def meet(self, key: int, again: bool = False) -> bool:
        """Mark an id as seen; return True if it was not marked before.

        A second pass over the ids sets `again`, so that it uses the second of the two flags.
        """
        key, mark = key or 1, MET << again
        part, at = self._place(key)
        value = part.values[at]
        part.values[at] = value | mark
        return not value & mark

    def _place(self, key: int) -> tuple[_Part, int]:
        """Return the slot of a key; add the key with the value 0 if it is new."""
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

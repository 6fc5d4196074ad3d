"""A table of what is known of ids, in some twenty bytes each: ten million fit into memory.

Open addressing with linear probing over flat arrays. An id stands as 64 bits of a digest; that two
of ten million ids share one is less likely than one in three hundred thousand. It is split into
parts, so that growing one of them does not keep the event loop waiting.
"""

from __future__ import annotations

from array import array

__all__ = ["Index"]

PARTS = 64

SMALLEST = 32
"""Slots of a part at first."""

FULL = 0.66
"""The share of slots in use from which on a part is made larger."""


class _Part:
    __slots__ = ("checks", "keys", "places", "used")

    def __init__(self, slots: int) -> None:
        self.keys = array("Q", bytes(8 * slots))
        self.places = array("Q", bytes(8 * slots))
        self.checks = array("I", bytes(4 * slots))
        self.used = 0

    def slot(self, key: int) -> int:
        keys = self.keys
        mask = len(keys) - 1
        at = (key >> 6) & mask
        while (found := keys[at]) and found != key:
            at = (at + 1) & mask
        return at


class Index:
    """From an id's digest to where its answer is, and a digest of what was asked."""

    def __init__(self) -> None:
        self._parts = [_Part(SMALLEST) for _ in range(PARTS)]

    def __len__(self) -> int:
        return sum(part.used for part in self._parts)

    def get(self, key: int) -> tuple[int, int] | None:
        """Return the place and the check of an id; `None` for an unknown one."""
        key = key or 1
        part = self._parts[key % PARTS]
        at = part.slot(key)
        return (part.places[at], part.checks[at]) if part.keys[at] else None

    def put(self, key: int, place: int, check: int) -> None:
        """Keep a place and 32 bits of a check, in the place of what was kept for the id."""
        key = key or 1
        part = self._parts[key % PARTS]
        at = part.slot(key)
        if not part.keys[at]:
            if part.used >= FULL * len(part.keys):
                part = self._parts[key % PARTS] = _grown(part)
                at = part.slot(key)
            part.keys[at] = key
            part.used += 1
        part.places[at], part.checks[at] = place, check & 0xFFFFFFFF


def _grown(part: _Part) -> _Part:
    larger = _Part(2 * len(part.keys))
    for key, place, check in zip(part.keys, part.places, part.checks, strict=True):
        if key:
            at = larger.slot(key)
            larger.keys[at], larger.places[at], larger.checks[at] = key, place, check
    larger.used = part.used
    return larger

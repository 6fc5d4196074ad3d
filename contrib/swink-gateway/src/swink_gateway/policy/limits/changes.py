"""The keys that a process looks at in Redis, instead of all that it knows.

Each admission and each charge lists its key with the time. Every second a process reads that list,
from where it stopped, and looks at these keys: those first that another process was refused because
of leases, then those used longest ago. It looks at the other keys in turn, a few at a time: their
leases follow the number of processes, and the end of a minute or a day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["MOST_CHANGED", "OTHERS", "Changes"]

MOST_CHANGED = 100
"""Changed keys of one look; the rest of them wait for the next one."""

OTHERS = 20
"""Other keys of one look."""


class Changes:
    """The changed keys at which a process has not looked; `since` is when it last read the list."""

    def __init__(self) -> None:
        self.since = 0.0
        self._wanted: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._others: list[str] = []

    def add(self, now: float, changed: Iterable[str], wanted: Iterable[str]) -> None:
        """Add the keys that were listed until `now`, by the clock of the server."""
        self.since = now
        self._changed.update(dict.fromkeys(changed))
        self._wanted.update(dict.fromkeys(wanted))

    def due(self, known: Collection[str]) -> list[str]:
        """Take the keys to look at now, out of those that the process knows."""
        found = {key: None for key in self._wanted if key in known}
        self._wanted.clear()
        for key in [*self._changed]:
            if len(found) >= MOST_CHANGED:
                break
            del self._changed[key]
            if key in known:
                found[key] = None
        if not self._others:
            self._others = [*known]
        for _ in range(min(OTHERS, len(self._others))):
            found[self._others.pop()] = None
        return [*found]

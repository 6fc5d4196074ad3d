"""Select the API keys whose state a process reads from Redis, instead of reading all.

Each admission and each charge adds the key and the time to a list in Redis. Every second, a process
reads the new part of that list and then the state of these keys. It first reads the keys that
another process refused because of leases (see `leases`), then the changed keys that have waited
longest. It also reads a few other keys in turn, because leases also depend on the number of
processes and on the end of a minute or a day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

__all__ = ["MOST_CHANGED", "OTHERS", "Changes"]

MOST_CHANGED = 100
"""The maximum number of changed keys to read at once; the rest are read the next time."""

OTHERS = 20
"""The number of other keys that are read at once."""


class Changes:
    """The keys whose state has changed and that this process has not read yet.

    `since` is the time up to which this process has read the list of changes in Redis: in seconds
    since 1970, by the clock of the Redis server.
    """

    def __init__(self) -> None:
        self.since = 0.0
        self._wanted: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._others: list[str] = []

    def add(self, now: float, changed: Iterable[str], wanted: Iterable[str]) -> None:
        """Add the keys that changed until `now`, a time of the server's clock.

        `wanted` are the keys for whose leases other processes wait.
        """
        self.since = now
        self._changed.update(dict.fromkeys(changed))
        self._wanted.update(dict.fromkeys(wanted))

    def due(self, known: Collection[str]) -> list[str]:
        """Return the keys among `known` to read now, and remove them from the changed keys."""
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

"""A cache of values for a model and the options of a call.

Both are compared by identity: a client that caches a target passes the same objects to each call.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from swink_core import Model, StreamOptions

__all__ = ["Remembered"]

T = TypeVar("T")

MOST = 64
"""The most entries; when it is exceeded, the cache is cleared."""


class Remembered(Generic[T]):
    """Cached values by model, options and further values that they depend on."""

    def __init__(self) -> None:
        # the objects are stored with the value, so that no other object gets their identity
        self._known: dict[tuple[int, int, Hashable], tuple[Model, StreamOptions, T]] = {}

    def get(self, model: Model, options: StreamOptions, more: Hashable = None) -> T | None:
        """Return the cached value, or `None`."""
        known = self._known.get((id(model), id(options), more))
        return None if known is None else known[2]

    def keep(self, model: Model, options: StreamOptions, more: Hashable, value: T) -> None:
        """Store a value."""
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[id(model), id(options), more] = model, options, value

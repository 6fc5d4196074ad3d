"""A cache of values for pairs of a model and the options of a call.

Models and options are compared by identity, which is fast. This suffices because a client reuses
its objects for calls with the same model and options.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from swink_core import Model, StreamOptions

__all__ = ["Remembered"]

T = TypeVar("T")

MOST = 64
"""The maximum number of entries. If it is reached, the whole cache is cleared."""


class Remembered(Generic[T]):
    """Values that depend on a model, on the options of a call, and on a further value."""

    def __init__(self) -> None:
        # the model and the options are stored too, so that their id() is not reused
        self._known: dict[tuple[int, int, Hashable], tuple[Model, StreamOptions, T]] = {}

    def get(self, model: Model, options: StreamOptions, more: Hashable) -> T | None:
        """Return the cached value, or `None`."""
        known = self._known.get((id(model), id(options), more))
        return None if known is None else known[2]

    def keep(self, model: Model, options: StreamOptions, more: Hashable, value: T) -> None:
        """Store a value."""
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[id(model), id(options), more] = model, options, value

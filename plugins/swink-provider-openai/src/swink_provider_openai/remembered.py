"""Values for a model and the options of a call, kept for the next call with the same two.

Both are compared by identity: a client that remembers a target gives its calls the same objects.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from swink_core import Model, StreamOptions

__all__ = ["Remembered"]

T = TypeVar("T")

MOST = 64
"""Entries that are kept; one more starts again from nothing."""


class Remembered(Generic[T]):
    """Values by model, options and whatever else they depend on."""

    def __init__(self) -> None:
        # the objects are kept with the value, so that no other object takes their identity
        self._known: dict[tuple[int, int, Hashable], tuple[Model, StreamOptions, T]] = {}

    def get(self, model: Model, options: StreamOptions, more: Hashable = None) -> T | None:
        """Return the value that was kept, or `None`."""
        known = self._known.get((id(model), id(options), more))
        return None if known is None else known[2]

    def keep(self, model: Model, options: StreamOptions, more: Hashable, value: T) -> None:
        """Keep a value."""
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[id(model), id(options), more] = model, options, value

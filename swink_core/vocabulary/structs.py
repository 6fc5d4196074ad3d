"""The base of the vocabulary's classes, and how to copy one with changes."""

from __future__ import annotations

from typing import Any, TypeVar

import attrs

T = TypeVar("T")


def replace(value: T, **changes: Any) -> T:
    """Return a copy of a message, block, event or other value, with new values for some fields.

    The copy is shallow. Raises TypeError for an unknown field name.
    """
    changed: T = attrs.evolve(value, **changes)  # type: ignore[misc]
    return changed

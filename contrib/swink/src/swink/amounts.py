"""Add up the usage, cost and charge of several calls."""

from __future__ import annotations

from typing import TypeVar

from swink_core import Charge, Cost, Usage

__all__ = ["added"]

Amount = TypeVar("Amount", Usage, Cost, Charge)


def added(one: Amount | None, other: Amount | None) -> Amount | None:
    """Return the sum of two amounts. `None` (unknown) counts as 0, unless both are `None`."""
    if one is None or other is None:
        return other if one is None else one
    return one + other

"""Ratios within the rounds of a benchmark, and how a page shows them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def within_rounds(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Return the ratio of each round."""
    return [one / other for one, other in zip(above, below, strict=True)]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the lowest and the highest value; `-` without values."""
    if not values:
        return "-"
    return f"{min(values):.{digits}f}-{max(values):.{digits}f}"


def with_spread(values: Sequence[float], digits: int = 2) -> str:
    """Return the median, with the lowest and the highest value in parentheses.

    The median stands alone if the rounded values are equal.
    """
    median = f"{statistics.median(values):.{digits}f}"
    shown = spread(values, digits)
    return median if shown == f"{median}-{median}" else f"{median} ({shown})"

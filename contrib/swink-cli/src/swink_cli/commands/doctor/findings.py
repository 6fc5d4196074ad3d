"""Findings of `swink doctor`: where something is, what is wrong with it, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from swink_core import SwinkError

__all__ = ["LIKENESS", "Finding", "failing", "instead"]

LIKENESS = 0.8
"""How like a name must be to another that its author may have meant, from 0 to 1."""


class Finding(NamedTuple):
    """One thing that is wrong."""

    where: str
    what: str
    advice: str

    @classmethod
    def of(cls, where: str, error: SwinkError) -> Finding:
        """Return what an error says."""
        return cls(where, error.message, error.resolution or "Correct it.")


def failing(checks: Mapping[str, Callable[[], object]]) -> list[Finding]:
    """Make each check, and return what failed, with where that is."""
    found = []
    for where, check in checks.items():
        try:
            check()
        except SwinkError as error:
            found.append(Finding.of(where, error))
    return found


def instead(word: str, known: Sequence[str]) -> str:
    """Advise a name that a wrong one may be meant for, or what there is."""
    near = difflib.get_close_matches(word, known, 1, LIKENESS)
    return f'Write "{near[0]}".' if near else f"There are {', '.join(known)}."

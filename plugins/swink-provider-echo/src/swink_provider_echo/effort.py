"""The work that echo may do for one schema, counted in steps of some microseconds."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]  # typeshed leaves it out
from re import _parser as parser  # type: ignore[attr-defined]  # typeshed leaves it out
from typing import Any

__all__ = ["BEGINNINGS", "Effort", "TooMuch"]

MOST_STEPS = 20_000

CHARACTERS = 250
"""The number of characters that are written in one step."""

TRIALS = 50
"""The number of positions that a regular expression tries in one step."""

MOST_TRIALS = 1_000_000
"""The maximum number of positions that one search of a regular expression may try."""

LONGEST_PATTERN = 1_000
"""The maximum length of a regular expression in characters."""

COMPILED = 20
"""The number of steps to compile any regular expression, without its characters."""

COMPILED_CHARACTER = 2
"""The number of steps to compile a character of a regular expression."""

COMPILED_RANGE = 500
"""The number of steps to compile a range up to a character above U+00FF, which may take 5 ms."""

_WIDE = re.compile(r"\\[uU]|[^\x00-\xff]")

BEGINNINGS = ((codes.AT, codes.AT_BEGINNING), (codes.AT, codes.AT_BEGINNING_STRING))
"""The items of a parse tree that match only at the beginning of a text."""


class TooMuch(Exception):
    """The schema needs more work than `MOST_STEPS`."""


class Effort:
    """Counts the steps for one schema."""

    def __init__(self) -> None:
        self._left = MOST_STEPS
        self._compiled: set[str] = set()
        self._found: dict[tuple[str, str], bool] = {}  # by the pattern and the text

    def spend(self, steps: int = 1, characters: int = 0) -> None:
        """Count steps, and the characters of a text. Raises TooMuch if there were too many."""
        self._left -= steps + characters // CHARACTERS
        if self._left < 0:
            raise TooMuch

    def parsed(self, pattern: str) -> tuple[re.Pattern[str], Any]:
        """Return a compiled regular expression and its parse tree.

        Raises re.error and OverflowError for a pattern that Python cannot parse, ValueError for a
        pattern that is too long, and TooMuch.
        """
        if len(pattern) > LONGEST_PATTERN:
            raise ValueError(f"it has more than {LONGEST_PATTERN:,} characters")
        if pattern not in self._compiled:
            ranges = len(_WIDE.findall(pattern))
            self.spend(COMPILED + COMPILED_CHARACTER * len(pattern) + COMPILED_RANGE * ranges)
            self._compiled.add(pattern)
        return _parsed(pattern)

    def matches(self, pattern: str, text: str) -> bool:
        """Return True if a pattern matches somewhere in a text. The same search is done once.

        Raises the errors of `parsed`, and ValueError if the search might take too long.
        """
        compiled, tree = self.parsed(pattern)
        self.spend(1, len(text))
        searched = (pattern, text)
        if searched not in self._found:
            is_anchored = bool(tree) and tree[0] in BEGINNINGS
            starts = 1 if is_anchored else len(text) + 1
            trials = starts * _tried(tree, len(text))[1]
            if trials > MOST_TRIALS:
                raise ValueError(f"a search might try more than {MOST_TRIALS:,} positions")
            self.spend(trials // TRIALS)
            self._found[searched] = compiled.search(text) is not None
        return self._found[searched]


@lru_cache(maxsize=256)
def _parsed(pattern: str) -> tuple[re.Pattern[str], Any]:
    return re.compile(pattern), parser.parse(pattern)


def _tried(tree: Iterable[tuple[Any, Any]], length: int) -> tuple[int, int]:
    """Return upper bounds for a part of a pattern and texts up to a length.

    The first is the number of ways in which the part can match, the second the number of positions
    that are tried from one start. Bounds over `MOST_TRIALS` are not exact.
    """
    ways, trials = 1, 0
    for code, value in tree:
        inner, cost = _tried_by(code, value, length)
        trials = min(trials + ways * cost, MOST_TRIALS + 1)
        ways = min(ways * inner, MOST_TRIALS + 1)
    return ways, trials


def _tried_by(code: Any, value: Any, length: int) -> tuple[int, int]:
    if code in (codes.BRANCH, codes.GROUPREF_EXISTS):
        parts = value[1] if code is codes.BRANCH else (value[1], value[2] or ())
        found = [_tried(part, length) for part in parts]
        return sum(ways for ways, _ in found), sum(cost for _, cost in found)
    if code is codes.SUBPATTERN:
        return _tried(value[3], length)
    if code in (codes.ASSERT, codes.ASSERT_NOT):
        return 1, _tried(value[1], length)[1]  # it is not tried again
    if code is codes.ATOMIC_GROUP:
        return 1, _tried(value, length)[1]
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, most, body = value
        most = min(most, max(least, length + 1))
        ways, cost = _tried(body, length)
        # with two ways, 20 repetitions already have more ways than are allowed
        repeated = (most - least + 1) * ways ** min(most, 20)
        return repeated, repeated * (cost + 1) + most * cost
    return 1, length + 1 if code is codes.GROUPREF else 1

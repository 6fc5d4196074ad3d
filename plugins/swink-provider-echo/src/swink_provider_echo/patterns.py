"""Generate strings that match a regular expression, by walking its parse tree.

At each branch and each character class, the walk must choose one of several possibilities. In the
first tries, these choices are the digits of one number, so that different numbers give different
strings. In later tries, the choices come from a seeded random generator. Optional parts are left
out unless the string would be too short. The walk skips anchors and lookarounds; if the pattern has
any except at its ends, a search then checks the whole string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache
from random import Random
from re import _constants as codes  # type: ignore[attr-defined]  # typeshed leaves it out
from typing import Any

from swink_provider_echo.effort import BEGINNINGS, Effort

__all__ = ["matching"]

STEADY_TRIES = 40
MOST_TRIES = 200
"""The maximum number of tries in total.

In the first `STEADY_TRIES` tries, the choices come from the caller's `number`.
"""

WIDEST = 256
"""Of a range such as `a-z`, only this many characters are considered."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_USUAL = f"{_LETTERS}{_LETTERS.upper()}0123456789 _-.,:;!?@#%&*+/=()[]{{}}<>|~^$'\"`\\"
_NAMED_GROUP = re.compile(r"\(\?<(?![=!])")


def matching(pattern: str, shortest: int, longest: float, number: int, effort: Effort) -> str:
    """Return a matching string of `shortest` to `longest` characters.

    Different values of `number` give different strings, if the pattern allows enough of them.

    Raises ValueError with the reason if no string matches the pattern and the lengths.
    """
    source = _NAMED_GROUP.sub("(?P<", pattern)  # JavaScript and Rust write `(?<name>…)`
    try:
        _, tree = effort.parsed(source)
        for text, is_certain in _tries(tree, source, shortest, longest, number, effort):
            if shortest <= len(text) <= longest and (is_certain or effort.matches(source, text)):
                return text
    except (re.error, OverflowError) as error:
        raise ValueError(f"Python cannot read it ({error})") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    raise ValueError(f"none of {MOST_TRIES} strings that were tried matches it")


def _tries(
    tree: Any, source: str, shortest: int, longest: float, number: int, effort: Effort
) -> Iterator[tuple[str, bool]]:
    """Yield strings, each with True if it certainly matches."""
    is_simple = _is_simple(tree)
    spare = 0
    for attempt in range(MOST_TRIES):
        choices: _Choices = _Digits(number)
        if attempt >= STEADY_TRIES:
            choices = _Chance(f"{source} {number} {attempt}")
        if attempt == STEADY_TRIES:
            spare = 0
        writer = _Writer(choices, spare, effort)
        text = writer.written(tree)
        is_certain = is_simple and not writer.has_gap
        missing = shortest - len(text)
        if missing > 0 and writer.spare > 0:  # the pattern has no more parts that can be repeated
            text += "a" * missing
            is_certain = False
        yield text, is_certain
        if missing > 0:
            spare += max(1, missing // 4)
        elif len(text) > longest:
            spare = max(0, spare - 1)
        else:
            spare += 1


def _is_simple(tree: Any) -> bool:
    """Return True if a pattern matches every string that the walk writes for it."""
    if tree.state.flags & ~re.UNICODE:
        return False  # the walk does not know that `[^a]` may exclude "A"
    items = [*tree]
    if items and items[0] in BEGINNINGS:
        del items[0]
    if items and items[-1] in _ENDS:
        del items[-1]
    return _has_no_conditions(items)


_ENDS = ((codes.AT, codes.AT_END), (codes.AT, codes.AT_END_STRING))


def _has_no_conditions(tree: Any) -> bool:
    for code, value in tree:
        if code is codes.BRANCH:
            parts = value[1]
        elif code is codes.SUBPATTERN:
            _, added, _, part = value
            parts = [part]
            if added:
                return False
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            parts = [value[2]]
        elif code in (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN):
            continue
        else:
            return False
        if not all(map(_has_no_conditions, parts)):
            return False
    return True


class _Digits:
    """Makes each choice with the next digit of a number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def pick(self, count: int) -> int:
        """Return the next choice: a number below `count`."""
        self._number, picked = divmod(self._number, count)
        return picked


class _Chance:
    """Makes each choice with a pseudo-random generator that has a fixed seed."""

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)

    def pick(self, count: int) -> int:
        """Return the next choice: a number below `count`."""
        return self._random.randrange(count)


_Choices = _Digits | _Chance


class _Writer:
    """Generates one string, with at most `spare` repetitions beyond the pattern's minimum."""

    def __init__(self, choices: _Choices, spare: int, effort: Effort) -> None:
        self.spare = spare
        self.has_gap = False
        """Whether a character class has no character that is considered."""
        self._effort = effort
        self._choices = choices
        self._groups: dict[int, str] = {}

    def written(self, tree: Collection[tuple[Any, Any]]) -> str:
        """Return a string for a part of a pattern."""
        self._effort.spend(1 + len(tree))
        return "".join(_WRITERS[code](self, value) for code, value in tree if code in _WRITERS)

    def one_of(self, items: Iterable[tuple[Any, Any]]) -> str:
        """Return a character of a character class."""
        fitting = _characters(tuple(items))
        self.has_gap |= not fitting
        return fitting[self._choices.pick(len(fitting))] if fitting else ""

    def branch(self, value: tuple[Any, list[Any]]) -> str:
        """Return a string for one of several branches."""
        return self.written(value[1][self._choices.pick(len(value[1]))])

    def group(self, value: tuple[int | None, int, int, Any]) -> str:
        """Return a string for a group, and store it under the group's number."""
        text = self.written(value[3])
        if value[0] is not None:
            self._groups[value[0]] = text
        return text

    def repeated(self, value: tuple[int, int, Any]) -> str:
        """Return the repetitions of a part: the minimum number and, if allowed, additional ones."""
        least, most, tree = value
        more = min(self.spare, most - least)
        self.spare -= more
        return "".join(self.written(tree) for _ in range(least + more))

    def remembered(self, number: int) -> str:
        """Return the string stored for an earlier group."""
        text = self._groups.get(number, "")
        self._effort.spend(characters=len(text))
        return text

    def conditional(self, value: tuple[int, Any, Any]) -> str:
        """Return a string for one of two parts, depending on whether a group has matched."""
        return self.written(value[1] if value[0] in self._groups else value[2] or ())


_WRITERS: dict[Any, Callable[[_Writer, Any], str]] = {
    codes.LITERAL: lambda _, value: chr(value),
    codes.NOT_LITERAL: lambda writer, value: writer.one_of(
        [(codes.NEGATE, None), (codes.LITERAL, value)]
    ),
    codes.ANY: lambda writer, _: writer.one_of([(codes.NEGATE, None), (codes.LITERAL, ord("\n"))]),
    codes.IN: _Writer.one_of,
    codes.BRANCH: _Writer.branch,
    codes.SUBPATTERN: _Writer.group,
    codes.ATOMIC_GROUP: _Writer.written,
    codes.MAX_REPEAT: _Writer.repeated,
    codes.MIN_REPEAT: _Writer.repeated,
    codes.POSSESSIVE_REPEAT: _Writer.repeated,
    codes.GROUPREF: _Writer.remembered,
    codes.GROUPREF_EXISTS: _Writer.conditional,
}

_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


@lru_cache(maxsize=1024)
def _characters(items: tuple[tuple[Any, Any], ...]) -> str:
    """Return the characters of a class in order of preference.

    Letters and digits come first. Characters that are listed singly precede characters from ranges.
    """
    is_negated = items[0][0] is codes.NEGATE
    parts = items[1:] if is_negated else items
    named = "" if is_negated else "".join(map(_named, parts))
    both = sorted(dict.fromkeys(named + _USUAL), key=lambda character: not character.isalnum())
    return "".join(c for c in both if any(_takes(part, c) for part in parts) is not is_negated)


def _named(part: tuple[Any, Any]) -> str:
    code, value = part
    if code is codes.LITERAL:
        return chr(value)
    if code is codes.RANGE:
        return "".join(map(chr, range(value[0], min(value[1] + 1, value[0] + WIDEST))))
    return ""


def _takes(part: tuple[Any, Any], character: str) -> bool:
    code, value = part
    if code is codes.LITERAL:
        return bool(ord(character) == value)
    if code is codes.RANGE:
        return bool(value[0] <= ord(character) <= value[1])
    return re.fullmatch(_CATEGORIES[value], character) is not None

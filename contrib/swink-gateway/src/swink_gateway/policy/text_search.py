"""Search long texts in pieces, so that other threads run between two pieces.

No other thread runs while Python's `re` searches. A search of 32 MiB may take a second, during
which a worker would answer no client.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from attrs import define

try:  # no public API knows the width of a pattern
    from re import _constants, _parser  # type: ignore[attr-defined]
except ImportError:  # then all texts are searched whole
    _constants = _parser = None

__all__ = ["PIECE", "LongSearch", "in_pieces"]

SHORT = 512
"""A text of up to this many characters is always searched by the pattern alone."""

PIECE = 262_144
"""The number of characters that are searched at a time."""


@define(frozen=True)
class LongSearch:
    """A pattern, and the maximum length of a match in characters.

    `width` is `None` if the length has no limit, or if the pattern can match an empty text or looks
    at the text around a match. With such a pattern, texts are searched whole. `first` matches the
    characters with which a match can begin; it is `None` if Python's `re` looks for them itself, or
    if they are unknown.
    """

    pattern: re.Pattern[str]
    width: int | None
    first: re.Pattern[str] | None = None

    @classmethod
    def of(cls, pattern: str) -> LongSearch:
        """Compile a regular expression. Raises re.error for an invalid one."""
        compiled = re.compile(pattern)
        if _parser is None:
            return cls(compiled, None)
        parsed: Any = _parser.parse(pattern)
        least, most = parsed.getwidth()
        is_limited = least > 0 and most < PIECE and not _has_assertion(parsed)
        return cls(compiled, most if is_limited else None, _first_of(parsed, compiled.flags))

    def is_in(self, text: str) -> bool:
        """Return True if the pattern matches anywhere in a text."""
        return self._next(text, 0) is not None

    def replaced(self, text: str, replacement: str) -> tuple[str, int]:
        """Replace all matches in a text; return the new text and their number."""
        is_whole = self.first is None and (self.width is None or len(text) <= PIECE)
        if is_whole or len(text) <= SHORT:
            return self.pattern.subn(lambda match: replacement, text)
        parts: list[str] = []
        count = at = 0
        while (found := self._next(text, at)) is not None:
            parts += (text[at : found.start()], replacement)
            count += 1
            at = found.end()
        return "".join((*parts, text[at:])) if count else text, count

    def _next(self, text: str, at: int) -> re.Match[str] | None:
        if self.width is None:
            return self._search(text, at, len(text))
        while (end := at + PIECE + self.width + 1) < len(text):
            decided = end - self.width - 1  # the end of the piece decides about later matches
            found = self._search(text, at, end)
            if found is not None and found.start() < decided:
                return found
            at = decided
        return self._search(text, at, len(text))

    def _search(self, text: str, at: int, end: int) -> re.Match[str] | None:
        """Return the first match between two positions.

        Python's `re` finds the first character of a match quickly, but not behind `\\b` or another
        anchor: then it tries the whole pattern at each position.
        """
        if self.first is None:
            return self.pattern.search(text, at, end)
        for begun in self.first.finditer(text, at, end):
            found = self.pattern.match(text, begun.start(), end)
            if found is not None:
                return found
        return None


CHANGED_PIECE = 32_768
"""The number of characters that are changed at a time: a change takes longer than a search."""


def in_pieces(text: str, change: Callable[[str], str]) -> str:
    """Change a text piece by piece, so that less memory is needed at a time.

    A substitution creates an object for each match, and `casefold` needs 12 bytes for each
    character. Pieces do not end within white space.
    """
    if len(text) <= CHANGED_PIECE:
        return change(text)
    pieces, at = [], 0
    while at < len(text):
        end = at + CHANGED_PIECE
        while end < len(text) and text[end].isspace():
            end += 1
        pieces.append(change(text[at:end]))
        at = end
    return "".join(pieces)


def _first_of(parsed: Any, flags: int) -> re.Pattern[str] | None:
    """Return a pattern for the first character of a match, if an anchor stands before it."""
    consuming: list[Any] = [item for item in parsed if item[0] is not _constants.AT]
    if flags & ~re.UNICODE or not consuming or parsed[0] is consuming[0]:
        return None
    operator, operand = consuming[0]
    if operator is _constants.LITERAL:
        return re.compile(re.escape(chr(operand)))
    if operator is not _constants.IN:
        return None
    members = [_member(*each) for each in operand]
    return None if None in members else re.compile(f"[{''.join(map(str, members))}]")


def _member(operator: Any, operand: Any) -> str | None:
    """Return a member of a character set as text of a pattern; `None` for an unknown member."""
    if operator is _constants.LITERAL:
        return re.escape(chr(operand))
    if operator is _constants.RANGE:
        low, high = operand
        return f"{re.escape(chr(low))}-{re.escape(chr(high))}"
    return _CLASSES.get(str(operand)) if operator is _constants.CATEGORY else None


_CLASSES = {"CATEGORY_DIGIT": r"\d", "CATEGORY_SPACE": r"\s", "CATEGORY_WORD": r"\w"}


def _has_assertion(parsed: Any) -> bool:
    """Return True if a parsed expression looks at text before or after its match."""
    if isinstance(parsed, _parser.SubPattern | list | tuple):
        return any(map(_has_assertion, parsed))
    return parsed is _constants.ASSERT or parsed is _constants.ASSERT_NOT

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

PIECE = 262_144
"""The number of characters that are searched at a time."""


@define(frozen=True)
class LongSearch:
    """A pattern, and how many characters at most decide whether it matches at a position.

    `width` is `None` if this number has no limit: then texts are searched whole.
    """

    pattern: re.Pattern[str]
    width: int | None

    @classmethod
    def of(cls, pattern: str) -> LongSearch:
        """Compile a regular expression. Raises re.error for an invalid one."""
        compiled = re.compile(pattern)
        if _parser is None:
            return cls(compiled, None)
        parsed: Any = _parser.parse(pattern)
        least, most = parsed.getwidth()
        is_limited = least > 0 and most < PIECE and not _has_assertion(parsed)
        return cls(compiled, most if is_limited else None)

    def is_in(self, text: str) -> bool:
        """Return True if the pattern matches anywhere in a text."""
        return self._next(text, 0) is not None

    def replaced(self, text: str, replacement: str) -> tuple[str, int]:
        """Replace all matches in a text; return the new text and their number."""
        if self.width is None or len(text) <= PIECE:
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
            return self.pattern.search(text, at)
        while (end := at + PIECE + self.width + 1) < len(text):
            decided = end - self.width - 1  # the end of the piece decides about later matches
            found = self.pattern.search(text, at, end)
            if found is not None and found.start() < decided:
                return found
            at = decided
        return self.pattern.search(text, at)


def in_pieces(text: str, change: Callable[[str], str]) -> str:
    """Change a text piece by piece, so that less memory is needed at a time.

    A substitution creates an object for each match, and `casefold` needs 12 bytes for each
    character. Pieces do not end within white space.
    """
    if len(text) <= PIECE:
        return change(text)
    pieces, at = [], 0
    while at < len(text):
        end = at + PIECE
        while end < len(text) and text[end].isspace():
            end += 1
        pieces.append(change(text[at:end]))
        at = end
    return "".join(pieces)


def _has_assertion(parsed: Any) -> bool:
    """Return True if a parsed expression looks at text before or after its match."""
    if isinstance(parsed, _parser.SubPattern | list | tuple):
        return any(map(_has_assertion, parsed))
    return parsed is _constants.ASSERT or parsed is _constants.ASSERT_NOT

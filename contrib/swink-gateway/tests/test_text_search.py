"""A search in pieces finds the same matches as a search of the whole text."""

from __future__ import annotations

import random
import re

import pytest

from swink_gateway.policy import text_search
from swink_gateway.policy.text_search import LongSearch, in_pieces

# (a pattern, the most characters that it matches)
PATTERNS = [
    (r"\b\d(?:[ -]?\d){3,6}\b", 13),
    (r"\bab\b", 2),
    (r"(a|bc)\1", 4),
    (r"(?m)^b", 1),
    (r"a$", 1),
    (r"a.{0,5}b", 7),
    (r"a|ab|abc", 3),
    (r"ab+?c", None),
    (r"(?s)a.*b", None),
    (r"a(?=b)", None),
    (r"(?<!a)b", None),
    (r"x*", None),
    (r"^[a-c]1", 2),
    (r"\B[b\s-]", 1),
    (r"\b[\w-]{2}", 2),
    (r"\b[^a]c", 2),
    (r"\b(?:a|b)c", 2),
    (r"(?i)\bB", 1),
    (r"\b", None),
]


@pytest.mark.parametrize(("pattern", "width"), PATTERNS)
def test_a_search_in_pieces_finds_what_a_whole_search_finds(
    pattern: str, width: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = LongSearch.of(pattern)
    assert search.width == width
    monkeypatch.setattr(text_search, "PIECE", 5)
    monkeypatch.setattr(text_search, "SHORT", 5)
    for seed in range(100):
        text = "".join(random.Random(seed).choices("abc1 -\n", k=60))
        assert search.replaced(text, "#") == re.subn(pattern, "#", text), ascii(text)
        assert search.is_in(text) == (re.search(pattern, text) is not None), ascii(text)


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        (r"\bab", "a"),
        (r"\b\d2", r"[\d]"),
        (r"\b\d{2}", None),
        (r"\B[b-d\s.]", r"[b-d\s\.]"),
        (r"ab", None),
        (r"\b[^a]", None),
        (r"(?i)\ba", None),
        (r"\b(a|b)", None),
    ],
)
def test_the_first_character_behind_an_anchor_is_known(pattern: str, first: str | None) -> None:
    found = LongSearch.of(pattern).first
    assert (None if found is None else found.pattern) == first


def test_a_piece_does_not_end_within_white_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_search, "CHANGED_PIECE", 3)
    assert in_pieces("ab  \n  c d", lambda piece: re.sub(r"\s+", " ", piece)) == "ab c d"

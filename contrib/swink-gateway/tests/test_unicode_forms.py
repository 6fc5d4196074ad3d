"""The compatibility form of a text takes linear time."""

from __future__ import annotations

import random
import sys
import unicodedata

import pytest

from swink_core import UsageError
from swink_gateway.policy import unicode_forms
from swink_gateway.policy.unicode_forms import MOST_MARKS, PIECE, compatible

USUAL = [
    "",
    "plain",
    "ＧＥＨＥＩＭ",
    "e\u0301te\u0301",
    "a" + "\u0316\u0300" * 15,
    "각 ﬁ Ⅳ ½",
    "\ud800x",
]


@pytest.mark.parametrize("text", USUAL, ids=ascii)
def test_a_usual_text_has_the_form_of_unicode(text: str) -> None:
    assert compatible(text) == unicodedata.normalize("NFKC", text)


# \u0f73 and \uff9e are no combining marks, but their decompositions begin with one
@pytest.mark.parametrize("marks", ["\u0300\u0316", "\u0344\u0316", "\u0f73\u0f81", "\uff9e\u0300"])
def test_a_long_row_of_marks_is_shortened_before_it_is_sorted(marks: str) -> None:
    found = compatible(f"a{marks * 200_000}b{marks}")
    assert len(found) < 5 * MOST_MARKS
    assert found.endswith(unicodedata.normalize("NFKC", f"b{marks}"))


# these are composed with the letter before them, or sorted before it
JOINED = "a\u0301\u0327\u0344\u1100\u1161\u11a8가\uff76\uff9eは\u309a\u0cc6\u0cc2\u0cd5ﬁ "


def test_a_long_text_is_divided_where_no_letters_are_composed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unicode_forms, "PIECE", 5)
    for seed in range(200):
        text = "".join(random.Random(seed).choices(JOINED, k=30))
        assert compatible(text) == unicodedata.normalize("NFKC", text), ascii(text)


def test_a_text_that_grows_too_much_is_refused() -> None:
    assert len(compatible("\ufdfa" * 10)) == 180
    with pytest.raises(UsageError, match="stand for several others"):
        compatible("\ufdfa" * 4 * PIECE)


def test_no_mark_is_beyond_the_searched_planes() -> None:
    beyond = map(chr, range(0x20000, sys.maxunicode + 1))
    assert not any(map(unicodedata.combining, beyond))

"""The depth of JSON: of text and of bytes, with brackets inside and outside of strings."""

from __future__ import annotations

import pytest

from swink_core.vocabulary.depth import MAX_DEPTH, SHALLOW_SIZE, is_too_deep


def nested(levels: int, inside: str = "", opening: str = "[", closing: str = "]") -> str:
    return opening * levels + inside + closing * levels


WIDE = ", ".join([nested(MAX_DEPTH // 2)] * 4)
MIXED = nested(MAX_DEPTH // 2 + 1, "", '{"a": [', "]}")
LONG_TEXT = f'"{"x" * SHALLOW_SIZE}"'

# (name, JSON, whether it is nested too deeply)
TEXTS: list[tuple[str, str, bool]] = [
    ("nothing", "", False),
    ("as_deep_as_allowed", nested(MAX_DEPTH, LONG_TEXT), False),
    ("one_level_more", nested(MAX_DEPTH + 1, LONG_TEXT), True),
    ("one_level_more_without_content", nested(MAX_DEPTH + 1), True),
    ("many_levels", nested(10_000), True),
    ("objects", nested(MAX_DEPTH + 1, "1", '{"a": ', "}"), True),
    ("objects_and_arrays", MIXED, True),
    ("wide_and_not_deep", f"[{WIDE}]", False),
    ("one_of_many_is_deep", f"[{WIDE}, {nested(MAX_DEPTH)}]", True),
    ("brackets_in_a_string", f'["{nested(500)}"]', False),
    ("brackets_after_an_escaped_quote", f'["\\"{nested(500)}"]', False),
    ("brackets_after_an_escaped_backslash", f'["\\\\", {nested(MAX_DEPTH)}]', True),
    ("brackets_in_a_string_that_does_not_end", f'["{"[" * 500}', False),
    ("more_opened_than_closed", "[" * 1_000, False),
    ("half_of_a_surrogate_pair", nested(MAX_DEPTH + 1, '"\ud800"'), True),
    ("a_word_that_is_not_json", nested(MAX_DEPTH + 1, "_"), True),
    ("a_word_that_is_not_ascii", nested(MAX_DEPTH + 1, '"\u00fc"'), True),
]


@pytest.mark.parametrize(("text", "deep"), [r[1:] for r in TEXTS], ids=[r[0] for r in TEXTS])
def test_json_is_too_deep_above_the_limit(text: str, deep: bool) -> None:
    assert is_too_deep(text) is deep
    assert is_too_deep(text.encode("utf-8", "surrogatepass")) is deep


def test_128_levels_are_allowed() -> None:
    assert not is_too_deep(nested(128, LONG_TEXT))
    assert is_too_deep(nested(129, LONG_TEXT))

"""Frames that are intact: text where text belongs, and characters that are whole."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import msgspec
import pytest

from swink_core.providers import MalformedFrame, text_field
from swink_core.providers.intact import lenient_json, repaired_json


@pytest.mark.parametrize(("value", "text"), [(None, ""), ("", ""), ("x", "x")])
def test_a_field_of_text_is_text_or_null(value: Any, text: str) -> None:
    assert text_field(value, "delta") == text


@pytest.mark.parametrize("value", [0, False, 5, ["x"], {}])
def test_a_field_of_text_with_anything_else_is_malformed(value: Any) -> None:
    said = f"expected text or null in the field 'delta', got {type(value).__name__}"
    with pytest.raises(MalformedFrame, match=said):
        text_field(value, "delta")


# (name, JSON, as repaired; None: nothing to repair)
REPAIRS: list[tuple[str, bytes, bytes | None]] = [
    ("half a character", b'{"a": "x\\ud83e"}', '{"a": "x\N{REPLACEMENT CHARACTER}"}'.encode()),
    (
        "halves in the wrong order",
        b'["\\udd8a\\ud83e"]',
        '["\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}"]'.encode(),
    ),
    ("half a character in a name", b'{"\\ud83e": 1}', '{"\N{REPLACEMENT CHARACTER}": 1}'.encode()),
    (
        "half beside a whole one",
        b'["\\ud83e\\udd8a\\ud83e"]',
        '["\N{FOX FACE}\N{REPLACEMENT CHARACTER}"]'.encode(),
    ),
    ("a whole character", b'["\\ud83e\\udd8a"]', None),
    ("other text", b'{"a": "x"}', None),
    ("no JSON", b'{"a": "\\ud83e', None),
    ("a number that JSON lacks", b'["\\ud83e", NaN]', None),
    ("a number that no float can represent", b'["\\ud83e", 1e999]', None),
    ("no UTF-8", b'["\\ud83e", "\xff"]', None),
    ("nested too deep", b"[" * 100_000, None),
]


@pytest.mark.parametrize(
    ("text", "repaired"), [row[1:] for row in REPAIRS], ids=[row[0] for row in REPAIRS]
)
def test_only_half_characters_are_repaired(text: bytes, repaired: bytes | None) -> None:
    assert repaired_json(text) == repaired


def test_text_with_half_a_character_can_be_encoded() -> None:
    said = {"a": "\ud83e\udd8a \ud83e", "b": "\u00fc"}
    assert (
        lenient_json(said)
        == '{"a": "\N{FOX FACE} \N{REPLACEMENT CHARACTER}", "b": "\u00fc"}'.encode()
    )


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("-inf"), "NaN", b"x", 1.5, 10**30, {1: date(2026, 1, 1)}, (True, None)],
    ids=str,
)
def test_beside_half_a_character_other_data_are_encoded_as_without_it(value: Any) -> None:
    sent = json.loads(lenient_json({"a": "\ud83e", "b": [value]}))
    assert sent["b"] == json.loads(msgspec.json.encode([value]))

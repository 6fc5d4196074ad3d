"""JSON schemas for APIs that accept only some keywords, or only closed objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swink_core.providers import closed_schema, plain_tuple, plain_union

OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}


@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [
        ("an object", OPEN, CLOSED),
        (
            "one that may be null",
            {"type": ["object", "null"]},
            {"type": ["object", "null"], "additionalProperties": False},
        ),
        (
            "objects within",
            {"type": "array", "items": OPEN, "$defs": {"b": OPEN}, "anyOf": [OPEN]},
            {"type": "array", "items": CLOSED, "$defs": {"b": CLOSED}, "anyOf": [CLOSED]},
        ),
        (
            "one that says what it thinks of others",
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "additionalProperties": {"type": "integer"}},
        ),
        (
            "no object",
            {"type": "string", "enum": ["object"]},
            {"type": "string", "enum": ["object"]},
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_object_is_closed(name: str, schema: dict[str, Any], expected: Any) -> None:
    before = copy.deepcopy(schema)

    assert closed_schema(schema) == expected
    assert schema == before


TEXT, NULL = {"type": "string"}, {"type": "null"}

# (name, schema, as converted)
UNIONS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("alternatives", {"oneOf": [TEXT, NULL]}, {"anyOf": [TEXT, NULL]}),
    (
        "a discriminator",
        {"oneOf": [OPEN], "discriminator": {"propertyName": "a"}, "title": "x"},
        {"anyOf": [OPEN], "title": "x"},
    ),
    ("both keywords", {"oneOf": [TEXT], "anyOf": [NULL]}, {"oneOf": [TEXT], "anyOf": [NULL]}),
    ("no union", OPEN, OPEN),
]


@pytest.mark.parametrize(
    ("schema", "expected"), [row[1:] for row in UNIONS], ids=[row[0] for row in UNIONS]
)
def test_any_of_replaces_one_of(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)

    assert plain_union(schema) == expected
    assert schema == before


# (name, schema without its type, as converted)
TUPLES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "different items",
        {"prefixItems": [TEXT, NULL, TEXT], "minItems": 3, "maxItems": 3},
        {"prefixItems": [TEXT, NULL, TEXT], "minItems": 3, "maxItems": 3, "items": {}},
    ),
    ("one item", {"prefixItems": [TEXT], "maxItems": 1}, {"items": TEXT, "maxItems": 1}),
    (
        "fewer than all items",
        {"prefixItems": [TEXT, NULL], "maxItems": 1},
        {"prefixItems": [TEXT, NULL], "maxItems": 1, "items": {}},
    ),
    ("equal items", {"prefixItems": [TEXT, TEXT], "maxItems": 2}, {"items": TEXT, "maxItems": 2}),
    (
        "no further items",
        {"prefixItems": [TEXT, NULL], "items": False},
        {"prefixItems": [TEXT, NULL], "items": {}, "maxItems": 2},
    ),
    *(
        (name, schema, schema)
        for name, schema in [
            ("any further items", {"prefixItems": [TEXT]}),
            ("some further items", {"prefixItems": [TEXT], "maxItems": 2}),
            ("an invalid limit", {"prefixItems": [TEXT], "maxItems": "1"}),
            ("a list", {"items": TEXT, "maxItems": 2}),
        ]
    ),
]


@pytest.mark.parametrize(
    ("schema", "expected"), [row[1:] for row in TUPLES], ids=[row[0] for row in TUPLES]
)
def test_a_fixed_length_array_has_a_schema_as_items(
    schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = copy.deepcopy(schema)

    assert plain_tuple(schema) == expected
    assert schema == before

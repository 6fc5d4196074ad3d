"""JSON schemas for APIs that take only closed objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swink_core.providers import closed_schema

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

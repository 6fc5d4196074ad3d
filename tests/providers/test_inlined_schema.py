"""JSON schemas for models that read no references."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from swink_core.providers import inlined_schema

OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
TEXT = {"type": "string"}
A = {"$ref": "#/$defs/a"}
TREE = {"type": "object", "properties": {"in": {"$ref": "#/$defs/tree"}}}
DOUBLING = {
    "0": TEXT,
    **{f"{n}": {"anyOf": [{"$ref": f"#/$defs/{n - 1}"}] * 2} for n in range(1, 40)},
}

INLINED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nothing to write out", OPEN, OPEN),
    ("a reference", {"properties": {"x": A}, "$defs": {"a": TEXT}}, {"properties": {"x": TEXT}}),
    (
        "what stands beside it wins",
        {"items": {**A, "title": "x"}, "$defs": {"a": {**TEXT, "title": "a"}}},
        {"items": {**TEXT, "title": "x"}},
    ),
    (
        "references in what is referred to, and in lists",
        {"anyOf": [A, {"$ref": "#/definitions/b"}], "$defs": {"a": TEXT}, "definitions": {"b": A}},
        {"anyOf": [TEXT, TEXT]},
    ),
    ("a root that is one", {**A, "$defs": {"a": OPEN}}, OPEN),
    (
        "names with a slash and a tilde",
        {"items": {"$ref": "#/$defs/a~1b~0"}, "$defs": {"a/b~": TEXT}},
        {"items": TEXT},
    ),
    ("a property of that name", {"properties": {"$ref": TEXT}}, {"properties": {"$ref": TEXT}}),
]
KEPT: list[tuple[str, dict[str, Any]]] = [
    ("a recursive one", {"items": {"$ref": "#/$defs/tree"}, "$defs": {"tree": TREE}}),
    ("one that grows without measure", {"items": {"$ref": "#/$defs/39"}, "$defs": DOUBLING}),
    ("one of elsewhere", {"items": {"$ref": "https://example.com/a"}}),
    ("one to nothing", {"items": {"$ref": "#/properties/x/y"}}),
]


@pytest.mark.parametrize(
    ("name", "schema", "expected"),
    [*INLINED, *((name, schema, schema) for name, schema in KEPT)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_references_are_written_out_where_that_ends(
    name: str, schema: dict[str, Any], expected: Any
) -> None:
    before = copy.deepcopy(schema)

    assert inlined_schema(schema) == expected
    assert schema == before

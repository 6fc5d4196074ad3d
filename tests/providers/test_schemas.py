"""Queries on JSON schemas: references, their circles, and the type of the root."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core.providers.schemas import has_object_root, is_recursive

# (name, schema, whether its root may be an object)
ROOTS: list[tuple[str, dict[str, Any], bool]] = [
    ("nothing", {}, True),
    ("an_object", {"type": "object"}, True),
    ("an_object_of_a_choice", {"type": "object", "anyOf": [{}]}, True),
    ("an_array", {"type": "array"}, False),
    ("two_types", {"type": ["object", "null"]}, False),
    ("properties_alone", {"properties": {"a": {}}}, True),
    ("any_of", {"anyOf": [{"type": "object"}]}, False),
    ("one_of", {"oneOf": [{"type": "object"}]}, False),
    ("all_of", {"allOf": [{"type": "object"}]}, False),
    ("enum", {"enum": [{}]}, False),
    ("const", {"const": {}}, False),
    ("a_reference", {"$ref": "#/$defs/a", "$defs": {"a": {"type": "object"}}}, True),
    ("a_reference_to_text", {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, False),
    ("a_reference_to_nothing", {"$ref": "#/$defs/b", "$defs": {"a": {"type": "string"}}}, True),
    ("a_reference_elsewhere", {"$ref": "https://a/b", "type": "string"}, False),
    ("an_escaped_name", {"$ref": "#/$defs/a~1b~0c", "$defs": {"a/b~c": {"enum": [1]}}}, False),
    ("a_part_that_is_no_schema", {"$ref": "#/title/x", "title": "x", "enum": [1]}, False),
]


@pytest.mark.parametrize(("schema", "may_be"), [r[1:] for r in ROOTS], ids=[r[0] for r in ROOTS])
def test_a_root_may_be_an_object(schema: dict[str, Any], may_be: bool) -> None:
    assert has_object_root(schema) is may_be


def with_parts(**parts: Any) -> dict[str, Any]:
    return {"properties": {"x": {"$ref": "#/$defs/a"}}, "$defs": parts}


# (name, schema, whether a reference leads back to itself)
CIRCLES: list[tuple[str, dict[str, Any], bool]] = [
    ("no_reference", {"type": "object"}, False),
    ("the_root", {"properties": {"x": {"$ref": "#"}}}, True),
    ("a_part", with_parts(a={"type": "string"}), False),
    ("a_part_of_itself", with_parts(a={"items": {"$ref": "#/$defs/a"}}), True),
    ("a_part_of_itself_in_a_list", with_parts(a={"anyOf": [{}, {"$ref": "#/$defs/a"}]}), True),
    (
        "a_circle_of_two",
        with_parts(a={"not": {"$ref": "#/$defs/b"}}, b={"$ref": "#/$defs/a"}),
        True,
    ),
    ("a_part_that_is_named_twice", with_parts(a={"x": {"$ref": "#/$defs/b"}}, b={}), False),
    ("a_property_that_is_called_so", {"properties": {"$ref": {"type": "string"}}}, False),
    ("a_part_that_is_missing", {"$ref": "#/$defs/a"}, False),
]


@pytest.mark.parametrize(("schema", "leads"), [r[1:] for r in CIRCLES], ids=[r[0] for r in CIRCLES])
def test_a_schema_is_recursive_if_a_reference_leads_back(
    schema: dict[str, Any], leads: bool
) -> None:
    assert is_recursive(schema) is leads

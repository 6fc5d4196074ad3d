"""Which data `sample` makes of which JSON schema."""

from typing import Any

import pytest

from swink_provider_echo.sample import sample

TREE = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/tree"}},
    "required": ["name"],
}

SCHEMAS: list[tuple[str, dict[str, Any], Any]] = [
    ("a string is the text", {"type": "string"}, "a b"),
    ("a number counts words", {"type": "number"}, 2),
    ("an integer counts words", {"type": "integer"}, 2),
    ("a boolean is true", {"type": "boolean"}, True),
    ("null is null", {"type": "null"}, None),
    ("the first of several types", {"type": ["integer", "null"]}, 2),
    ("anything is the text", {}, "a b"),
    ("const", {"const": 5}, 5),
    ("enum", {"type": "string", "enum": ["x", "y"]}, "x"),
    ("default", {"type": "integer", "default": 9}, 9),
    ("anyOf", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2),
    ("oneOf", {"oneOf": [{"type": "null"}]}, None),
    (
        "allOf joins objects",
        {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {"type": "integer"}}}]},
        {"a": "a b", "b": 2},
    ),
    ("allOf of something else", {"allOf": [{"type": "integer"}]}, 2),
    ("an array has one item", {"type": "array", "items": {"type": "integer"}}, [2]),
    ("an array of anything", {"type": "array"}, ["a b"]),
    ("an object without a stated type", {"properties": {"a": {"type": "integer"}}}, {"a": 2}),
    ("an object of anything", {"type": "object"}, {}),
    (
        "a reference",
        {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "integer"}}},
        2,
    ),
    ("a reference to nothing", {"$ref": "#/$defs/none"}, "a b"),
]


@pytest.mark.parametrize(
    ("schema", "expected"), [row[1:] for row in SCHEMAS], ids=[row[0] for row in SCHEMAS]
)
def test_data_for_a_schema(schema: dict[str, Any], expected: Any) -> None:
    assert sample(schema, "a b") == expected


def test_a_schema_that_recurs_comes_to_an_end() -> None:
    data = sample({"$ref": "#/$defs/tree", "$defs": {"tree": TREE}}, "a b")

    assert data["child"]["child"]["name"] == "a b"


def test_a_schema_that_only_refers_to_itself_comes_to_an_end() -> None:
    assert sample({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "a b") == "a b"


def test_a_schema_that_requires_itself_comes_to_an_end() -> None:
    tree = {**TREE, "required": ["name", "child"]}

    data = sample({"$ref": "#/$defs/tree", "$defs": {"tree": tree}}, "a b")

    assert data["name"] == "a b"

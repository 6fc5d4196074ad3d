"""Which data `sample` makes of which JSON schema."""

import re
from typing import Any

import pytest

from swink_provider_echo.sample import NoSample, sample

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


# (what is wrong, schema, part of the message)
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    (
        "a schema that only refers to itself",
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}},
        "no value for `$`: a required part has no value, or the type contains itself without end",
    ),
    (
        "a schema that requires itself",
        {"$ref": "#/$defs/tree", "$defs": {"tree": {**TREE, "required": ["name", "child"]}}},
        "no value for `$`: a required part has no value, or the type contains itself without end",
    ),
    (
        "alternatives that refer to themselves",
        {"type": "string", "anyOf": [{"$ref": "#"}]},
        "no value for `$`: alternatives refer to each other without end",
    ),
    (
        "a pattern that nothing matches",
        {"properties": {"a": {"items": {"type": "string", "pattern": "^a$", "minLength": 3}}}},
        "no value for `$.a[0]`: pattern '^a$': none of",
    ),
    (
        "a pattern in another language",
        {"type": "string", "pattern": r"^\p{Lu}+$"},
        r"pattern '^\\p{Lu}+$': Python cannot read it",
    ),
    (
        "bounds that exclude each other",
        {"type": "integer", "minimum": 3, "maximum": 2},
        "no integer is within {'minimum': 3, 'maximum': 2}",
    ),
    ("no multiple within bounds", {"minimum": 3, "maximum": 4, "multipleOf": 5}, "'multipleOf': 5"),
    (
        "a format that is never so long",
        {"type": "string", "format": "date", "minLength": 11},
        "format 'date'",
    ),
    (
        "more different items than there are",
        {"items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3},
        "`uniqueItems` requires 3 different items",
    ),
    (
        "nothing at all",
        {"properties": {"a": False}, "required": ["a"]},
        "no value for `$`: a required part",
    ),
    (
        "too much",
        {"type": "string", "minLength": 10**9},
        "no string has 1000000000 to 100000 characters",
    ),
]


@pytest.mark.parametrize(
    ("schema", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_schema_without_a_value_is_refused_by_name(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(NoSample, match=re.escape(why)):
        sample(schema, "a b")

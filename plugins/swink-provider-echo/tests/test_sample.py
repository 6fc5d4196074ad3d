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
    ("allOf joins enums", {"allOf": [{"enum": [1.0, "x"]}, {"enum": [True, 1, [2]]}]}, 1.0),
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
    (
        "a pattern whose search could take years",
        {"type": "string", "pattern": r"^(a+)+\b!$", "minLength": 30},
        "a search might try more than 1,000,000 positions",
    ),
    (
        "a pattern that is too long",
        {"type": "string", "pattern": "a" * 1_001},
        "it has more than 1,000 characters",
    ),
    (
        "a pattern that writes a thousand million characters",
        {"type": "string", "pattern": "((a{1000}){1000}){1000}"},
        "no value for `$`: it takes more than 20,000 steps",
    ),
    (
        "alternatives that fail again in each alternative",
        {
            "$ref": "#/$defs/0",
            "$defs": {
                **{f"{n}": {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(60)},
                "60": {"type": "string", "pattern": "^a$", "minLength": 2},
            },
        },
        "no value for `$`: it takes more than 20,000 steps",
    ),
    (
        "a schema that is too long",
        {"properties": {f"a{n}": {"type": "string"} for n in range(9_000)}},
        "the schema has more than 200,000 characters of JSON",
    ),
    (
        "a long constant, repeated",
        {"type": "array", "minItems": 9_000, "items": {"const": [0] * 50_000}},
        "no value for `$`: it takes more than 20,000 steps",
    ),
    (
        "a long name, repeated",
        {"type": "array", "minItems": 9_000, "items": {"required": ["a" * 100_000]}},
        "no value for `$`: it takes more than 20,000 steps",
    ),
    (
        "gigabytes",
        {"type": "array", "minItems": 90_000, "items": {"type": "string", "minLength": 90_000}},
        "no value for `$`: it takes more than 20,000 steps",
    ),
    (
        "thousands of patterns",
        {
            "required": [f"x{n}" for n in range(5_000)],
            "patternProperties": {f"^a{n}$": {} for n in range(5_000)},
        },
        "no value for `$`: it takes more than 20,000 steps",
    ),
]


@pytest.mark.parametrize(
    ("schema", "why"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_schema_without_a_value_is_refused_by_name(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(NoSample, match=re.escape(why)):
        sample(schema, "a b")


# (what the pattern is, the pattern, the minimum length)
MATCHED = [
    ("words with hyphens", r"^[a-z0-9]+(?:-[a-z0-9]+)*$", 300),
    ("a host", r"^(?:[a-z0-9]+\.)+[a-z]{2,}$", 5),
    ("a password", r"^(?=.*\d)(?=.*[a-z])(?=.*[A-Z]).{8,}$", 8),
    ("nested repetitions without an anchor", "(a+)+b", 30),
    ("a class that ignores case", "(?i)^[^a]{3}$", 3),
    ("a group that ignores case", "^(?i:[^abc-z])+$", 3),
    ("nested repetitions with an anchor", "^(a+)+$", 30),
]


@pytest.mark.parametrize(
    ("pattern", "least"), [row[1:] for row in MATCHED], ids=[row[0] for row in MATCHED]
)
def test_a_text_matches_its_pattern(pattern: str, least: int) -> None:
    text = sample({"type": "string", "pattern": pattern, "minLength": least}, "a b")

    assert re.search(pattern, text)
    assert len(text) >= least


def test_names_and_defaults_are_not_searched_for_long() -> None:
    slow = "^(a+)+$"
    text = "a" * 40 + "!"
    schema = {"patternProperties": {slow: {"type": "null"}}, "required": [text]}
    assert sample(schema, "a b") == {text: "a b"}
    assert sample({"type": "string", "pattern": slow, "default": text}, "a b") == text
    long = "a" * 90_000
    for pattern in ("a{50000}b", r"(a*)\1b"):
        assert sample({"type": "string", "pattern": pattern, "default": long}, "a b") == long


@pytest.mark.parametrize("kind", [{}, [{}], [["string"], "string"]])
def test_a_type_that_is_no_text_is_joined_with_another(kind: Any) -> None:
    assert sample({"allOf": [{"type": kind}, {"type": "string"}]}, "a b") == "a b"

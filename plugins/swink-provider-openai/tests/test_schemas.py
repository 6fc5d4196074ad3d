"""Conversion of schemas to OpenAI's form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import Tool
from swink_provider_openai.parameters import is_strict
from swink_provider_openai.schemas import plain_schema
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

ANSWER = b'data: {"choices": [{"delta": {"content": "{}"}, "finish_reason": "stop"}]}\n\n'
POINT = {"type": "object", "properties": {"x": {"type": "number"}}}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}

# (name, schema, as it goes out)
SCHEMAS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("plain", POINT, POINT),
    ("a reference at the root", {"$ref": "#/$defs/P", "$defs": {"P": POINT}}, POINT),
    (
        "one that refers to itself",
        {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
        {**NODE, "$defs": {"Node": NODE}},
    ),
    *(
        (
            f"one that refers to {what}",
            {"$ref": where, "$defs": {"P": POINT}},
            {"$ref": where, "$defs": {"P": POINT}},
        )
        for what, where in (
            ("nothing there", "#/$defs/Q"),
            ("no schema", "#/$defs/P/type/x"),
            ("all of itself", "#"),
        )
    ),
    ("an array of anything", {"type": "array"}, {"type": "array", "items": {}}),
    (
        "an array within",
        {"properties": {"a": {"anyOf": [{"type": "array"}, {"type": "null"}]}}},
        {"properties": {"a": {"anyOf": [{"type": "array", "items": {}}, {"type": "null"}]}}},
    ),
    ("a tuple", {"type": "array", "prefixItems": [{}]}, {"type": "array", "prefixItems": [{}]}),
    (
        "a union with a discriminator",
        {"properties": {"discriminator": {"oneOf": [POINT], "discriminator": {}}}},
        {"properties": {"discriminator": {"anyOf": [POINT]}}},
    ),
    (
        "a tuple of equal items within",
        {"items": {"type": "array", "prefixItems": [POINT, POINT], "items": False}},
        {"items": {"type": "array", "items": POINT, "maxItems": 2}},
    ),
    *(
        (
            f"a reference with a description {where}",
            {"properties": {"p": {"$ref": ref, "description": "x"}}, "$defs": {"P": POINT}},
            {
                "properties": {"p": {"anyOf": [{"$ref": ref}], "description": "x"}},
                "$defs": {"P": POINT},
            },
        )
        for where, ref in (("to a definition", "#/$defs/P"), ("to all of the schema", "#"))
    ),
    (
        "a reference beside alternatives",
        {"items": {"$ref": "#/$defs/P", "anyOf": [POINT]}, "$defs": {"P": POINT}},
        {"items": {"$ref": "#/$defs/P", "anyOf": [POINT]}, "$defs": {"P": POINT}},
    ),
    (
        "properties called like a reference",
        {"properties": {"$ref": {"type": "string"}, "x": {"type": "string"}}},
        {"properties": {"$ref": {"type": "string"}, "x": {"type": "string"}}},
    ),
    ("data that looks like one", {"default": {"type": "array"}}, {"default": {"type": "array"}}),
    (
        "a property called like a keyword",
        {"properties": {"default": {"type": "array"}, "type": {"type": "string"}}},
        {"properties": {"default": {"type": "array", "items": {}}, "type": {"type": "string"}}},
    ),
]


@pytest.mark.parametrize(
    ("schema", "expected"), [row[1:] for row in SCHEMAS], ids=[row[0] for row in SCHEMAS]
)
def test_a_schema_goes_out(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert plain_schema(schema) == expected


TEXT = {"type": "string"}
CLOSED = {**POINT, "required": ["x"], "additionalProperties": False}

# (name, schema of a field, whether strict mode accepts it)
STRICT: list[tuple[str, dict[str, Any], bool]] = [
    ("a union", {"anyOf": [TEXT, {"type": "null"}]}, True),
    ("a reference", {"$ref": "#/$defs/default"}, True),
    ("a reference with a description", {"$ref": "#/$defs/default", "description": "x"}, False),
    ("a default", {**TEXT, "default": {}}, True),
    ("an object of any fields", {"type": "object", "additionalProperties": True}, False),
    ("alternatives that exclude each other", {"oneOf": [TEXT]}, False),
    ("different items", {"type": "array", "items": TEXT, "uniqueItems": True}, False),
    ("an object", CLOSED, True),
    ("a pattern", {**TEXT, "pattern": r"^(?:\d{4}|x=!)$"}, True),
    *(
        (f"a pattern with {assertion}", {**TEXT, "pattern": rf"^{assertion}0000)\d{{4}}$"}, False)
        for assertion in ("(?=", "(?!", "(?<=", "(?<!")
    ),
    *(
        (f"an object with {limit}", {**CLOSED, limit: 1}, False)
        for limit in ("minProperties", "maxProperties")
    ),
    ("a tuple", {"type": "array", "prefixItems": [TEXT], "items": TEXT}, False),
    ("a list of anything", {"type": "array", "items": {}}, False),
    ("a list without items", {"type": "array"}, False),
    ("anything", {"description": "x"}, False),
    ("values of different types", {"enum": [1, "a"]}, False),
]


@pytest.mark.parametrize(
    ("schema", "accepted"), [row[1:] for row in STRICT], ids=[row[0] for row in STRICT]
)
def test_strict_mode_is_requested_only_for_schemas_that_it_accepts(
    schema: dict[str, Any], accepted: bool
) -> None:
    whole = {
        "type": "object",
        "properties": {"oneOf": schema},
        "required": ["oneOf"],
        "additionalProperties": False,
        "$defs": {"default": TEXT},
    }
    assert is_strict(whole) is accepted


async def test_tools_and_answers_have_such_schemas() -> None:
    http = MemoryHTTPClient(MemoryResponse([ANSWER]))
    referring = {"$ref": "#/$defs/P", "$defs": {"P": POINT}}
    async with client_with(http=http, api_key="k") as client:
        await client.complete(
            "openai/gpt-4o", "Hi", tools=[Tool("f", "", referring)],
            response_format=referring,
        )  # fmt: skip
    body = http.bodies[0]
    assert body["tools"][0]["function"]["parameters"] == POINT
    assert body["response_format"]["json_schema"]["schema"] == POINT


async def test_a_described_field_of_a_defined_type_keeps_strict_mode_and_its_description() -> None:
    schema = {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/P", "description": "where"}},
        "required": ["p"],
        "additionalProperties": False,
        "$defs": {"P": CLOSED},
    }
    http = MemoryHTTPClient(MemoryResponse([ANSWER]))
    async with client_with(http=http, api_key="k") as client:
        await client.complete(
            "openai/gpt-4o", "Hi", tools=[Tool("f", "", schema, strict=True)],
            response_format=schema,
        )  # fmt: skip
    body = http.bodies[0]
    answer, tool = body["response_format"]["json_schema"], body["tools"][0]["function"]
    assert (answer["strict"], tool["strict"]) == (True, True)
    described = {"anyOf": [{"$ref": "#/$defs/P"}], "description": "where"}
    assert answer["schema"]["properties"] == {"p": described}
    assert tool["parameters"]["properties"] == {"p": described}


def test_nested_tuples_do_not_multiply_a_schema() -> None:
    nested: dict[str, Any] = TEXT
    for _ in range(50):
        nested = {"type": "array", "prefixItems": [TEXT, nested], "items": False}

    assert len(json.dumps(plain_schema(nested))) < 2 * len(json.dumps(nested))

"""Conversion of schemas to OpenAI's form."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import Tool
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

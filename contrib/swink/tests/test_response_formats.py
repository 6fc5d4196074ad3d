"""OpenAI's dictionaries for `response_format`, compared with swink's own values on the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

import swink
from swink_judge.strict import strict_server

SCHEMA = {
    "type": "object",
    "properties": {"type": {"type": "string"}, "json_schema": {"type": "integer"}},
    "required": ["type", "json_schema"],
    "additionalProperties": False,
}
TITLED = {"title": "reading", "description": "One reading.", **SCHEMA}
NAMED = {"name": "reading", "description": "One reading.", "schema": SCHEMA, "strict": True}

FORMS = [
    pytest.param({"type": "json_object"}, "json", id="json_object"),
    pytest.param({"type": "text"}, None, id="text"),
    pytest.param({"type": "json_schema", "json_schema": NAMED}, TITLED, id="chat completions"),
    pytest.param({"type": "json_schema", **NAMED}, TITLED, id="responses"),
    pytest.param(
        {"type": "json_schema", "json_schema": {"name": "other", "schema": TITLED}},
        {**TITLED, "title": "other"},
        id="a name beside a title",
    ),
]

MODELS = [
    "anthropic/claude-sonnet-5-5",
    "cohere/command-a-plus-05-2026",
    "gemini/gemini-3.8-flash",
    "groq/openai/gpt-oss-120b",
    "mistral/mistral-large-4",
    "ollama/gpt-oss:20b",
    "openai/gpt-6.1-sol",
    "xai/grok-4.7",
]


async def requested(model: str, response_format: Any) -> Mapping[str, Any]:
    """Return the body of the request that a call sends; the server accepts it."""
    provider = model.partition("/")[0]
    async with strict_server(provider) as server:
        own = {provider: {"base_url": server.url, "api_key": "sk-test"}}
        async with swink.Client(providers=own, retry=False) as client:
            await client.complete(model, "Hello", response_format=response_format)
    assert server.refused == []
    [asked] = server.asked
    body: Mapping[str, Any] = asked.body
    return body


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("theirs", "ours"), FORMS)
async def test_openais_form_sends_the_request_of_swinks_own_form(
    model: str, theirs: Any, ours: Any
) -> None:
    if ours == "json" and model.startswith("anthropic/"):
        pytest.skip("Anthropic has no JSON mode without a schema")
    assert await requested(model, theirs) == await requested(model, ours)


async def test_a_schema_is_wrapped_once() -> None:
    body = await requested("openai/gpt-6.1-sol", {"type": "json_schema", "json_schema": NAMED})
    form = body["text"]["format"]
    assert (form["type"], form["name"], form["strict"]) == ("json_schema", "reading", True)
    assert form["schema"]["properties"] == SCHEMA["properties"]


@pytest.mark.parametrize(
    "schema",
    [
        SCHEMA,
        {"properties": {"type": {"const": "json_object"}}},
        {"type": ["object", "null"], "properties": {"schema": {}}},
        {"$ref": "#/$defs/text", "$defs": {"text": {"type": "object"}}},
    ],
)
def test_a_json_schema_stays_the_schema_that_was_passed(schema: dict[str, Any]) -> None:
    assert swink.StreamOptions(response_format=schema).response_format == schema


@attrs.define
class Reading:
    """A class that an application wants answers of."""

    value: int


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (Reading, "call answer(…, type=Reading) of swink.Client or swink.SyncClient"),
        (list[int], "call answer(…, type=list[int]) of swink.Client or swink.SyncClient"),
        (7, "response_format=7"),
        ({"type": "json_schema"}, "no JSON schema under 'schema'"),
        ({"type": "json_schema", "json_schema": {"name": "x"}}, "no JSON schema under 'schema'"),
        ({"type": "json_schema", "schema": [1]}, "no JSON schema under 'schema'"),
    ],
)
def test_another_value_is_refused_with_the_remedy(value: Any, sentence: str) -> None:
    with (
        swink.SyncClient() as client,
        pytest.raises(swink.InvalidOption, match=re.escape(sentence)),
    ):
        client.complete("echo/echo", "Hello", response_format=value)

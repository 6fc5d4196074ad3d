"""The `anthropic` package as a second opinion on what we send."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    CacheStrategy,
    Context,
    DocumentBlock,
    ExtensionBlock,
    FileIdSource,
    Host,
    ImageBlock,
    Model,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    replace,
)
from swink_core.providers import Catalog
from swink_provider_anthropic import AnthropicProvider
from swink_recorder.loopback import LoopbackServer
from swink_test_helpers.typed_dicts import misfits
from swink_testing.calls import client_with

PROVIDER = AnthropicProvider("anthropic")
MODEL = Model("anthropic", "any")
ADAPTIVE = Catalog(Host(environ={}), environ={}).resolve("anthropic/claude-opus-5")


HI = UserMessage("Hi")
SAID = {"role": "user", "content": [{"type": "text", "text": "Hi"}]}
SCHEMA = {"type": "object", "properties": {"at": {"type": "integer"}}, "required": ["at"]}
LOOK = Tool("look", "Looks.", SCHEMA)
OWN_PART = ExtensionBlock("anthropic", "upload", {"type": "container_upload", "file_id": "file_2"})
LOOK_PARAM = {"name": "look", "description": "Looks.", "input_schema": SCHEMA}
SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
SEARCHED = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "x"},
}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CITATION = {
    "type": "page_location",
    "cited_text": "x",
    "document_index": 0,
    "document_title": None,
    "start_page_number": 1,
    "end_page_number": 2,
}
EPHEMERAL = {"type": "ephemeral", "ttl": "1h"}

REQUESTS: list[tuple[str, Model, Context, dict[str, Any], dict[str, Any]]] = [
    (
        "a question",
        MODEL,
        Context([HI]),
        {},
        {"max_tokens": 4096, "messages": [SAID]},
    ),
    (
        "tuning",
        MODEL,
        Context([HI], "Be brief."),
        {"max_tokens": 9, "temperature": 0.2, "stop": ["A"], "session_id": "s"},
        {
            "max_tokens": 9,
            "messages": [SAID],
            "system": [{"type": "text", "text": "Be brief."}],
            "stop_sequences": ["A"],
            "metadata": {"user_id": "s"},
            "extra_body": {"temperature": 0.2},
        },
    ),
    (
        "thinking within a budget",
        MODEL,
        Context([HI]),
        {"max_tokens": 9000, "thinking": 3000},
        {
            "max_tokens": 9000,
            "messages": [SAID],
            "thinking": {"type": "enabled", "budget_tokens": 3000},
        },
    ),
    (
        "adaptive thinking and a schema",
        ADAPTIVE,
        Context([HI]),
        {"thinking": "high", "response_format": SCHEMA},
        {
            "max_tokens": 128_000,
            "messages": [SAID],
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {
                "effort": "high",
                "format": {"type": "json_schema", "schema": SCHEMA},
            },
        },
    ),
    (
        "tools, ours and the server's",
        MODEL,
        Context([HI], tools=[LOOK]),
        {"tool_choice": "look", "parallel_tool_calls": False, "extra": {"tools": [SEARCH]}},
        {
            "max_tokens": 4096,
            "messages": [SAID],
            "tools": [LOOK_PARAM, SEARCH],
            "tool_choice": {"type": "tool", "name": "look", "disable_parallel_tool_use": True},
        },
    ),
    (
        "a strict tool, an uploaded file, a part of the API's own, an instruction further on",
        MODEL,
        Context(
            [
                UserMessage([DocumentBlock(FileIdSource("anthropic", "file_1")), OWN_PART]),
                SystemMessage("Be quick."),
            ],
            tools=[replace(LOOK, strict=True, metadata={"anthropic": {"defer_loading": True}})],
        ),
        {"user": "u"},
        {
            "max_tokens": 4096,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                        {"type": "container_upload", "file_id": "file_2"},
                    ],
                },
                {"role": "system", "content": [{"type": "text", "text": "Be quick."}]},
            ],
            "tools": [
                {
                    **LOOK_PARAM,
                    "input_schema": {**SCHEMA, "additionalProperties": False},
                    "strict": True,
                    "defer_loading": True,
                }
            ],
            "metadata": {"user_id": "u"},
        },
    ),
    (
        "a second turn with everything",
        MODEL,
        Context(
            [
                UserMessage(
                    [
                        ImageBlock(Base64Source("image/png", "iVBO")),
                        DocumentBlock(Base64Source("application/pdf", "JVBE"), "a.pdf"),
                        TextBlock("Hi"),
                    ]
                ),
                AssistantMessage(
                    [
                        ThinkingBlock("hm", "c2ln"),
                        ThinkingBlock("", "ZW5j", redacted=True),
                        TextBlock("See:", {"citations": [CITATION]}),
                        ExtensionBlock("anthropic", "server_tool_use", SEARCHED),
                        ExtensionBlock("anthropic", "web_search_tool_result", FOUND),
                        ToolCallBlock("toolu_1", "look", {"at": 1}),
                    ],
                    provider="anthropic",
                ),
                ToolResultMessage("toolu_1", "look", "broken", is_error=True),
                UserMessage("And?"),
            ],
            "Be brief.",
            [LOOK],
        ),
        {"cache": CacheStrategy(ttl=3600)},
        {
            "max_tokens": 4096,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": EPHEMERAL}],
            "tools": [{**LOOK_PARAM, "cache_control": EPHEMERAL}],
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "image",
                            "source": {
                                "type": "base64",
                                "media_type": "image/png",
                                "data": "iVBO",
                            },
                        },
                        {
                            "type": "document",
                            "source": {
                                "type": "base64",
                                "media_type": "application/pdf",
                                "data": "JVBE",
                            },
                            "title": "a.pdf",
                        },
                        {"type": "text", "text": "Hi"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                        {"type": "redacted_thinking", "data": "ZW5j"},
                        {"type": "text", "text": "See:", "citations": [CITATION]},
                        SEARCHED,
                        FOUND,
                        {
                            "type": "tool_use",
                            "id": "toolu_1",
                            "name": "look",
                            "input": {"at": 1},
                        },
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "toolu_1",
                            "content": [{"type": "text", "text": "broken"}],
                            "is_error": True,
                        },
                        {"type": "text", "text": "And?", "cache_control": EPHEMERAL},
                    ],
                },
            ],
        },
    ),
]


def _our_body(model: Model, context: Context, options: dict[str, Any], url: str) -> dict[str, Any]:
    asked = StreamOptions(base_url=url, **options)
    request = PROVIDER.request(model, PROVIDER.convert(model, context, asked), asked)
    assert request.url == f"{url}/v1/messages"
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return body


def _for_the_sdk(arguments: dict[str, Any], anthropic: Any) -> dict[str, Any]:
    """Return a call's arguments with their schema as the SDK's own helper writes it."""
    if (config := arguments.get("output_config")) is None:
        return arguments
    schema = anthropic.transform_schema(config["format"]["schema"])
    return {
        **arguments,
        "output_config": {**config, "format": {**config["format"], "schema": schema}},
    }


@pytest.mark.parametrize(
    ("name", "model", "context", "options", "arguments"), REQUESTS, ids=[r[0] for r in REQUESTS]
)
def test_we_send_what_the_sdk_sends(
    name: str,
    model: Model,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    server: LoopbackServer,
    sdk: Any,
    anthropic: Any,
) -> None:
    given = _for_the_sdk(arguments, anthropic)
    with sdk.messages.create(model=model.id, stream=True, **given) as stream:
        list(stream)

    assert _our_body(model, context, options, server.url) == server.exchanges[-1].json


UNDECLARED = {".temperature is not declared by MessageCreateParamsStreaming"}
"""The newest models have no sampling, and this SDK no parameters for it; older models do."""


@pytest.mark.parametrize(
    ("name", "model", "context", "options", "arguments"), REQUESTS, ids=[r[0] for r in REQUESTS]
)
def test_the_sdk_declares_every_field_that_we_send(
    name: str,
    model: Model,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    server: LoopbackServer,
    declared: Any,
) -> None:
    ours = _our_body(model, context, options, server.url)
    assert set(misfits(ours, declared)) <= UNDECLARED


async def test_we_send_the_headers_that_the_sdk_sends(server: LoopbackServer, sdk: Any) -> None:
    with sdk.messages.create(model="any", max_tokens=1, messages=[SAID], stream=True) as stream:
        list(stream)
    async with (
        client_with(api_key="test", base_url=server.url) as client,
        client.stream("anthropic/any", "Hi") as events,
    ):
        async for _ in events:
            pass
    theirs, ours = server.exchanges[-2].headers, server.exchanges[-1].headers
    for name in ("anthropic-version", "content-type", "x-api-key"):
        assert ours[name] == theirs[name]

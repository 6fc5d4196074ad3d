"""Compare requests with those of the `openai` package, which xAI documents for its API.

Each row says the same twice: as swink's conversation and options, and as the SDK's arguments, of
Responses or Chat Completions as swink chooses. The address and the body are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    ImageBlock,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_provider_xai import XAIProvider
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.outgoing import leaving

PROVIDER = XAIProvider("xai")
HI = Context([UserMessage("Hi")], "Be brief.")
SAID = {"role": "user", "content": "Hi"}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = Tool("weather", "The weather.", SCHEMA)
OFFERED = {"name": "weather", "description": "The weather.", "parameters": SCHEMA}
ARGUMENTS = '{"city": "Rome"}'
PIXEL = "data:image/png;base64,aVBORw=="
LOOKED_UP = Context(
    [
        UserMessage([
            TextBlock("Where?"),
            ImageBlock(Base64Source("image/png", "aVBORw==")),
            ImageBlock(UrlSource("https://swink.invalid/b.png")),
        ]),
        AssistantMessage([TextBlock("I look."),
                          ToolCallBlock("call_a", "weather", {"city": "Rome"}, ARGUMENTS)]),
        ToolResultMessage("call_a", "weather", "none", is_error=True),
    ],
    tools=[WEATHER],
)  # fmt: skip

KEPT = {"store": False, "include": ["reasoning.encrypted_content"]}
CHAT = {"stream_options": {"include_usage": True}}
SYSTEM = {"role": "system", "content": "Be brief."}

ROWS: list[tuple[str, str, Context, dict[str, Any], dict[str, Any]]] = [
    (
        "options and reasoning", "grok-4.7", HI,
        {"temperature": 0.2, "top_p": 0.9, "max_tokens": 500, "user": "u", "session_id": "s",
         "thinking": "high"},
        {**KEPT, "input": [SAID], "instructions": "Be brief.", "temperature": 0.2, "top_p": 0.9,
         "max_output_tokens": 500, "user": "u", "prompt_cache_key": "s",
         "reasoning": {"effort": "high", "summary": "auto"}},
    ),
    (
        "a schema", "grok-4.7", HI, {"response_format": {"title": "place", **SCHEMA}},
        {**KEPT, "input": [SAID], "instructions": "Be brief.",
         "text": {"format": {"type": "json_schema", "name": "place", "strict": True,
                             "schema": {"title": "place", **SCHEMA}}}},
    ),
    (
        "images, a tool and its result", "grok-4.7", LOOKED_UP,
        {"tool_choice": "weather", "parallel_tool_calls": False,
         "extra": {"tools": [{"type": "web_search"}]}},
        {
            **KEPT,
            "input": [
                {"role": "user", "content": [
                    {"type": "input_text", "text": "Where?"},
                    {"type": "input_image", "image_url": PIXEL, "detail": "auto"},
                    {"type": "input_image", "image_url": "https://swink.invalid/b.png",
                     "detail": "auto"},
                ]},
                {"role": "assistant", "content": "I look."},
                {"type": "function_call", "call_id": "call_a", "name": "weather",
                 "arguments": ARGUMENTS},
                {"type": "function_call_output", "call_id": "call_a", "output": "Error: none"},
            ],
            "tools": [{"type": "function", **OFFERED, "strict": False}, {"type": "web_search"}],
            "tool_choice": {"type": "function", "name": "weather"},
            "parallel_tool_calls": False,
        },
    ),
    (
        "options that only Chat Completions has", "grok-4.7", HI,
        {"stop": ["END"], "seed": 7, "response_format": "json"},
        {**CHAT, "messages": [SYSTEM, SAID], "stop": ["END"], "seed": 7,
         "response_format": {"type": "json_object"}},
    ),
    (
        "an older model's options and reasoning", "grok-3-mini", HI,
        {"temperature": 0.2, "max_tokens": 500, "user": "u", "thinking": "low"},
        {**CHAT, "messages": [SYSTEM, SAID], "temperature": 0.2, "max_completion_tokens": 500,
         "user": "u", "reasoning_effort": "low"},
    ),
    (
        "images, a tool and its result over Chat Completions", "grok-3-mini", LOOKED_UP,
        {"tool_choice": "required", "parallel_tool_calls": False},
        {
            **CHAT,
            "messages": [
                {"role": "user", "content": [
                    {"type": "text", "text": "Where?"},
                    {"type": "image_url", "image_url": {"url": PIXEL}},
                    {"type": "image_url", "image_url": {"url": "https://swink.invalid/b.png"}},
                ]},
                {"role": "assistant", "content": "I look.", "tool_calls": [
                    {"id": "call_a", "type": "function",
                     "function": {"name": "weather", "arguments": ARGUMENTS}}]},
                {"role": "tool", "tool_call_id": "call_a", "content": "Error: none"},
            ],
            "tools": [{"type": "function", "function": OFFERED}],
            "tool_choice": "required",
            "parallel_tool_calls": False,
        },
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[CaptureServer]:
    with CaptureServer() as server:
        yield server


@pytest.mark.parametrize(
    ("name", "model", "context", "options", "arguments"), ROWS, ids=[row[0] for row in ROWS]
)
def test_we_send_what_the_sdk_sends(
    name: str,
    model: str,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    server: CaptureServer,
) -> None:
    openai = pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    with openai.OpenAI(api_key="test", base_url=f"{server.url}/v1") as sdk:
        api = sdk.chat.completions if "messages" in arguments else sdk.responses
        list(api.create(model=model, stream=True, **arguments))
    ours = leaving(PROVIDER, f"xai/{model}", context, base_url=f"{server.url}/v1", **options)
    assert (ours.body, ours.refused_by) == (server.exchanges[-1].json, [])
    assert ours.url == f"{server.url}{server.exchanges[-1].path}"

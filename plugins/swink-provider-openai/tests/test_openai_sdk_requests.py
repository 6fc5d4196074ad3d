"""Compare requests with those of the `openai` package.

Each row expresses a call twice: as swink's conversation and options, and as the SDK's arguments.
Both requests are captured and compared field by field, and checked against the SDK's parameter
types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    CacheStrategy,
    Context,
    DocumentBlock,
    FileIdSource,
    ImageBlock,
    Message,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_recorder.loopback import Exchange
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.typed_dicts import misfits
from swink_testing.calls import client_with

ANSWER = b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}]}\n\n'

HI: list[Message] = [UserMessage("Hi")]
SAID = [{"role": "user", "content": "Hi"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
CALLS = [
    ToolCallBlock("call_a", "weather", {"city": "Rome"}, '{"city": "Rome"}'),
    ToolCallBlock("call_b", "weather", {"city": "Oslo"}, '{"city":"Oslo"}'),
]

ROWS: list[tuple[str, Context, dict[str, Any], dict[str, Any]]] = [
    ("a question", Context(HI), {}, {"messages": SAID}),
    (
        "a system prompt",
        Context(HI, "Be brief."),
        {},
        {"messages": [{"role": "system", "content": "Be brief."}, *SAID]},
    ),
    (
        "options",
        Context(HI),
        {
            "presence_penalty": 0.0, "frequency_penalty": 0.5, "user": "u",
            "temperature": 0.2, "top_p": 0.9, "max_tokens": 50, "stop": ["END", "."], "seed": 7,
            "thinking": "low", "session_id": "s", "cache": CacheStrategy(ttl=86400),
        },
        {
            "messages": SAID, "temperature": 0.2, "top_p": 0.9, "max_completion_tokens": 50,
            "presence_penalty": 0.0, "frequency_penalty": 0.5, "safety_identifier": "u",
            "stop": ["END", "."], "seed": 7, "reasoning_effort": "low", "prompt_cache_key": "s",
            "prompt_cache_retention": "24h",
        },
    ),
    (
        "media",
        Context([UserMessage([
            TextBlock("What are these?"),
            ImageBlock(Base64Source("image/png", "aVBORw==")),
            AudioBlock(Base64Source("audio/wav", "UklGRg==")),
            DocumentBlock(Base64Source("application/pdf", "JVBERg=="), "a.pdf"),
            DocumentBlock(FileIdSource("openai", "file-1")),
        ])]),
        {},
        {"messages": [{"role": "user", "content": [
            {"type": "text", "text": "What are these?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,aVBORw=="}},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {
                "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERg=="}},
            {"type": "file", "file": {"file_id": "file-1"}},
        ]}]},
    ),
    (
        "tools and their results",
        Context(
            [
                UserMessage("Weather?"),
                AssistantMessage([TextBlock("I look."), *CALLS]),
                ToolResultMessage("call_a", "weather", "sunny"),
                ToolResultMessage("call_b", "weather", "snow"),
            ],
            tools=[Tool("weather", "The weather.", SCHEMA, strict=True)],
        ),
        {"tool_choice": "weather", "parallel_tool_calls": False},
        {
            "messages": [
                {"role": "user", "content": "Weather?"},
                {"role": "assistant", "content": "I look.", "tool_calls": [
                    {"id": "call_a", "type": "function", "function": {
                        "name": "weather", "arguments": '{"city": "Rome"}'}},
                    {"id": "call_b", "type": "function", "function": {
                        "name": "weather", "arguments": '{"city":"Oslo"}'}},
                ]},
                {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
                {"role": "tool", "tool_call_id": "call_b", "content": "snow"},
            ],
            "tools": [{"type": "function", "function": {
                "name": "weather", "description": "The weather.", "parameters": SCHEMA,
                "strict": True}}],
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
            "parallel_tool_calls": False,
        },
    ),
    (
        "calls without text",
        Context([UserMessage("Weather?"), AssistantMessage([CALLS[0]]),
                 ToolResultMessage("call_a", "weather", "none", is_error=True)]),
        {},
        {"messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "call_a", "type": "function", "function": {
                    "name": "weather", "arguments": '{"city": "Rome"}'}}]},
            {"role": "tool", "tool_call_id": "call_a", "content": "Error: none"},
        ]},
    ),
    ("JSON", Context(HI), {"response_format": "json"},
     {"messages": SAID, "response_format": {"type": "json_object"}}),
    ("a schema", Context(HI), {"response_format": {"title": "place", **SCHEMA}},
     {"messages": SAID, "response_format": {"type": "json_schema", "json_schema": {
         "name": "place", "schema": {"title": "place", **SCHEMA}, "strict": True}}}),
    ("other fields", Context(HI), {"extra": {"user": "u", "n": 1, "logprobs": True}},
     {"messages": SAID, "user": "u", "n": 1, "logprobs": True}),
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[CaptureServer]:
    with CaptureServer(ANSWER) as server:
        yield server


async def _sent(server: CaptureServer, context: Context, options: dict[str, Any]) -> Exchange:
    async with client_with(api_key="test") as client:
        await client.complete("openai/any", context, base_url=f"{server.url}/v1", **options)
    return server.exchanges[-1]


@pytest.mark.parametrize(("name", "context", "options", "arguments"), ROWS)
async def test_the_sdk_sends_the_same(
    name: str,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    server: CaptureServer,
    sdk: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "o")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "p")

    ours = await _sent(server, context, options)
    for _ in sdk.chat.completions.create(
        model="any", stream=True, stream_options={"include_usage": True}, **arguments
    ):
        pass
    theirs = server.exchanges[-1]

    assert ours.json == theirs.json
    assert (ours.method, ours.path) == (theirs.method, theirs.path)
    for header in ("authorization", "openai-organization", "openai-project", "content-type"):
        assert ours.headers[header] == theirs.headers[header]


@pytest.mark.parametrize(("name", "context", "options", "arguments"), ROWS)
async def test_the_request_is_as_the_sdk_declares_it(
    name: str,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    server: CaptureServer,
) -> None:
    body = msgspec.json.decode((await _sent(server, context, options)).body)

    declared = pytest.importorskip("openai.types.chat.completion_create_params")
    assert misfits(body, declared.CompletionCreateParamsStreaming) == []

"""Compare requests and addresses with the Azure clients of the `openai` package.

Each row expresses a call twice: as swink's conversation and options, and as the SDK's arguments,
for the API that swink chooses. Both forms of the address are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_provider_azure import AzureProvider
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.outgoing import leaving

PROVIDER = AzureProvider("azure")
QUESTION = {"role": "user", "content": "Which tide?"}
HEIGHT = {
    "type": "object",
    "title": "height",
    "properties": {"metres": {"type": "number"}},
    "required": ["metres"],
    "additionalProperties": False,
}
ASKED = Context([UserMessage("Which tide?")], "Answer as a pilot.")
PILOT = {"role": "system", "content": "Answer as a pilot."}
TIDE = Tool("tide", "Tells the tide.", HEIGHT, strict=True)
PHOTO = ImageBlock(Base64Source("image/jpeg", "/9j/4A=="))
DATA_URL = "data:image/jpeg;base64,/9j/4A=="
LINK = "https://swink.invalid/quay.png"
CALLED = [
    ToolCallBlock("call_1", "tide", {"metres": 1}, '{"metres": 1}'),
    ToolCallBlock("call_2", "tide", {"metres": 2}, '{"metres":2}'),
]
FOUND = Context(
    [
        UserMessage("Which tide?"),
        AssistantMessage([TextBlock("Let me see."), *CALLED]),
        ToolResultMessage("call_1", "tide", "ebb"),
        ToolResultMessage("call_2", "tide", [TextBlock("flood"), PHOTO]),
    ],
    tools=[TIDE],
)
SEEN = Context([UserMessage([TextBlock("And this?"), PHOTO, ImageBlock(UrlSource(LINK))])])

REASONED = {"store": False, "include": ["reasoning.encrypted_content"]}
COUNTED = {"stream_options": {"include_usage": True}}


ROWS: list[tuple[str, str, Context, dict[str, Any], dict[str, Any]]] = [
    (
        "options over Chat Completions", "gpt-4.1", ASKED,
        {"temperature": 0.2, "top_p": 0.9, "max_tokens": 500, "stop": ["END"], "seed": 7,
         "presence_penalty": 0.5, "user": "u", "session_id": "s", "response_format": HEIGHT},
        {**COUNTED, "messages": [PILOT, QUESTION], "temperature": 0.2, "top_p": 0.9,
         "max_completion_tokens": 500, "stop": ["END"], "seed": 7, "presence_penalty": 0.5,
         "user": "u", "prompt_cache_key": "s",
         "response_format": {"type": "json_schema", "json_schema": {
             "name": "height", "schema": HEIGHT, "strict": True}}},
    ),
    (
        "images over Chat Completions", "gpt-4.1", SEEN, {},
        {**COUNTED, "messages": [{"role": "user", "content": [
            {"type": "text", "text": "And this?"},
            {"type": "image_url", "image_url": {"url": DATA_URL}},
            {"type": "image_url", "image_url": {"url": LINK}},
        ]}]},
    ),
    (
        "a tool and its results over Chat Completions", "gpt-4.1", FOUND,
        {"tool_choice": "tide", "parallel_tool_calls": False},
        {
            **COUNTED,
            "messages": [
                QUESTION,
                {"role": "assistant", "content": "Let me see.", "tool_calls": [
                    {"id": call.id, "type": "function",
                     "function": {"name": "tide", "arguments": call.raw_arguments}}
                    for call in CALLED
                ]},
                {"role": "tool", "tool_call_id": "call_1", "content": "ebb"},
                {"role": "tool", "tool_call_id": "call_2", "content": "flood"},
                {"role": "user", "content": [
                    {"type": "text", "text": "From tide:"},
                    {"type": "image_url", "image_url": {"url": DATA_URL}}]},
            ],
            "tools": [{"type": "function", "function": {
                "name": "tide", "description": "Tells the tide.", "parameters": HEIGHT,
                "strict": True}}],
            "tool_choice": {"type": "function", "function": {"name": "tide"}},
            "parallel_tool_calls": False,
        },
    ),
    (
        "options and reasoning over Responses", "gpt-6.1-sol", ASKED,
        {"max_tokens": 500, "user": "u", "session_id": "s", "thinking": "high",
         "response_format": HEIGHT},
        {**REASONED, "input": [QUESTION], "instructions": "Answer as a pilot.",
         "max_output_tokens": 500, "user": "u", "prompt_cache_key": "s",
         "reasoning": {"effort": "high", "summary": "auto"},
         "text": {"format": {
             "type": "json_schema", "name": "height", "schema": HEIGHT, "strict": True}}},
    ),
    (
        "a document and images over Responses", "gpt-6.1-sol",
        Context([UserMessage([DocumentBlock(Base64Source("application/pdf", "JVBERg=="), "a.pdf"),
                              PHOTO, ImageBlock(UrlSource(LINK))])]),
        {},
        {**REASONED, "input": [{"role": "user", "content": [
            {"type": "input_file", "filename": "a.pdf",
             "file_data": "data:application/pdf;base64,JVBERg=="},
            {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
            {"type": "input_image", "image_url": LINK, "detail": "auto"},
        ]}]},
    ),
    (
        "a tool and its results over Responses", "gpt-6.1-sol", FOUND,
        {"tool_choice": "tide", "parallel_tool_calls": False},
        {
            **REASONED,
            "input": [
                QUESTION,
                {"role": "assistant", "content": "Let me see."},
                *({"type": "function_call", "call_id": call.id, "name": "tide",
                   "arguments": call.raw_arguments} for call in CALLED),
                {"type": "function_call_output", "call_id": "call_1", "output": "ebb"},
                {"type": "function_call_output", "call_id": "call_2", "output": [
                    {"type": "input_text", "text": "flood"},
                    {"type": "input_image", "image_url": DATA_URL, "detail": "auto"}]},
            ],
            "tools": [{"type": "function", "name": "tide", "description": "Tells the tide.",
                       "parameters": HEIGHT, "strict": True}],
            "tool_choice": {"type": "function", "name": "tide"},
            "parallel_tool_calls": False,
        },
    ),
]  # fmt: skip

VERSION = "2026-01-01"


@pytest.fixture(scope="module")
def server() -> Iterator[CaptureServer]:
    with CaptureServer() as server:
        yield server


@pytest.mark.parametrize("version", [VERSION, None])
@pytest.mark.parametrize(
    ("name", "model", "context", "options", "arguments"), ROWS, ids=[row[0] for row in ROWS]
)
def test_we_send_what_the_sdk_sends(
    name: str,
    model: str,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    version: str | None,
    server: CaptureServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AZURE_OPENAI_API_VERSION", raising=False)
    monkeypatch.delenv("OPENAI_API_VERSION", raising=False)
    openai = pytest.importorskip("openai", reason="OpenAI's SDK is not installed")
    own = {"api_key": "k", "http_client": openai.DefaultHttpxClient(verify=False)}
    if version:
        sdk = openai.AzureOpenAI(**own, azure_endpoint=server.url, api_version=version)
    else:
        sdk = openai.OpenAI(**own, base_url=f"{server.url}/openai/v1")
    with sdk:
        api = sdk.chat.completions if "messages" in arguments else sdk.responses
        list(api.create(model=model, stream=True, **arguments))
    theirs = server.exchanges[-1]

    settings = {"api_version": version} if version else {}
    there = {"base_url": server.url, "settings": settings}
    ours = leaving(PROVIDER, f"azure/{model}", context, **there, **options)
    assert (ours.body, ours.refused_by) == (theirs.json, [])
    assert ours.url == server.url + theirs.path + (f"?api-version={version}" if version else "")
    assert theirs.query == ({"api-version": version} if version else {})

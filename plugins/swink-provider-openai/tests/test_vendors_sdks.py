"""The clients of services as a second opinion on what these are sent.

Each sends the same as swink's conversation and options, in the client's arguments; fields without
an argument, though the service accepts them, are sent as its `extra_body`. `make counterparts`
drives the newest of each; here a client that is not installed is skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

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
    UserMessage,
)
from swink_provider_openai import OpenAIProvider
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.outgoing import leaving


class Vendor(NamedTuple):
    """A service's client, a model of it that sees, its own options, said in either way, and what
    it takes beside tools.

    `replayed` is what a message with calls must have beside them.
    """

    module: str
    client: str
    path: str
    model: str
    options: dict[str, Any]
    arguments: dict[str, Any]
    extra_body: dict[str, Any]
    tools: dict[str, Any]
    replayed: str | None = None


COUNTED = {"stream_options": {"include_usage": True}}
ONE_CALL = {"parallel_tool_calls": False}
TUNED_MORE = {"seed": 7, "presence_penalty": 0.5}
VENDORS = {
    "groq": Vendor(
        "groq", "Groq", "/openai/v1", "meta-llama/llama-4-scout-17b-16e-instruct",
        {**TUNED_MORE, "user": "u", "max_tokens": 500},
        {**TUNED_MORE, "user": "u", "max_completion_tokens": 500},
        COUNTED, ONE_CALL,
    ),
    "together": Vendor(
        "together", "Together", "/v1", "moonshotai/Kimi-K3",
        {**TUNED_MORE, "top_k": 4, "max_tokens": 500, "thinking": "low"},
        {**TUNED_MORE, "top_k": 4, "max_tokens": 500, "reasoning_effort": "low"},
        COUNTED, {},
    ),
    "cerebras": Vendor(
        "cerebras.cloud.sdk", "Cerebras", "/v1", "qwen-3.8-27b",
        {**TUNED_MORE, "user": "u", "max_tokens": 500, "thinking": "off"},
        {**TUNED_MORE, "user": "u", "max_completion_tokens": 500, "reasoning_effort": "none"},
        COUNTED, ONE_CALL,
    ),
    "fireworks": Vendor(
        "fireworks", "Fireworks", "/v1", "accounts/fireworks/models/kimi-k3p1-pro",
        {**TUNED_MORE, "top_k": 4, "user": "u", "max_tokens": 500, "thinking": "low"},
        {**TUNED_MORE, "top_k": 4, "user": "u", "max_tokens": 500, "reasoning_effort": "low"},
        COUNTED, ONE_CALL, "reasoning_content",
    ),
    "sambanova": Vendor(
        "sambanova", "SambaNova", "", "gemma-4-31B-it",
        {"seed": 7, "top_k": 4, "max_tokens": 500},
        {"seed": 7, "top_k": 4, "max_tokens": 500},
        COUNTED, ONE_CALL,
    ),
}  # fmt: skip

SCHEMA = {
    "type": "object",
    "title": "moon",
    "properties": {"phase": {"type": "string"}},
    "required": ["phase"],
    "additionalProperties": False,
}
MOON = Tool("moon", "Tells the moon's phase.", SCHEMA)
TUNED = {"temperature": 0.2, "top_p": 0.9, "stop": ["END"]}
CALL = ToolCallBlock("call_m", "moon", {"phase": "new"}, '{"phase": "new"}')
SEEN = Context(
    [UserMessage([TextBlock("Which phase?"), ImageBlock(Base64Source("image/png", "aVBORw=="))])],
    "Be brief.",
)
USED = Context(
    [UserMessage("Tonight?"), AssistantMessage([CALL]), ToolResultMessage("call_m", "moon", "new")],
    tools=[MOON],
)
SEEN_IN_WORDS = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [
        {"type": "text", "text": "Which phase?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aVBORw=="}},
    ]},
]  # fmt: skip
USED_IN_WORDS: list[dict[str, Any]] = [
    {"role": "user", "content": "Tonight?"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_m", "type": "function",
         "function": {"name": "moon", "arguments": '{"phase": "new"}'}}]},
    {"role": "tool", "tool_call_id": "call_m", "content": "new"},
]  # fmt: skip
HI = Context([UserMessage("Hi")])
SAID = {"role": "user", "content": "Hi"}
IN_WORDS = {
    "type": "json_schema",
    "json_schema": {"name": "moon", "schema": SCHEMA, "strict": True},
}
OFFERED = {
    "type": "function",
    "function": {"name": "moon", "description": "Tells the moon's phase.", "parameters": SCHEMA},
}


@pytest.fixture(scope="module")
def server() -> Iterator[CaptureServer]:
    with CaptureServer() as server:
        yield server


@pytest.mark.parametrize("name", VENDORS)
def test_we_send_what_the_vendors_client_sends(name: str, server: CaptureServer) -> None:
    vendor = VENDORS[name]
    module = pytest.importorskip(vendor.module, reason=f"{name}'s SDK is not installed")
    provider = OpenAIProvider(name)

    def ours(context: Context, **options: Any) -> tuple[str, dict[str, Any]]:
        found = leaving(provider, f"{name}/{vendor.model}", context,
                        base_url=server.url + vendor.path, **options)  # fmt: skip
        assert (found.notices, found.refused_by) == ([], [])
        return found.url, found.body

    with getattr(module, vendor.client)(api_key="test", base_url=server.url) as sdk:

        def theirs(**arguments: Any) -> tuple[str, dict[str, Any]]:
            create = sdk.chat.completions.create
            list(create(model=vendor.model, stream=True, extra_body=vendor.extra_body, **arguments))
            return server.url + server.exchanges[-1].path, server.exchanges[-1].json

        assert ours(SEEN, **TUNED, **vendor.options) == theirs(
            messages=SEEN_IN_WORDS, **TUNED, **vendor.arguments
        )
        assert ours(HI, response_format=SCHEMA) == theirs(messages=[SAID], response_format=IN_WORDS)
        options = {"tool_choice": "moon", **vendor.tools}
        question, answer, result = USED_IN_WORDS
        if vendor.replayed:
            answer = {**answer, vendor.replayed: ""}
        assert ours(USED, **options) == theirs(
            messages=[question, answer, result], tools=[OFFERED], **vendor.tools,
            tool_choice={"type": "function", "function": {"name": "moon"}},
        )  # fmt: skip


def test_we_send_what_the_client_of_the_agent_api_sends(server: CaptureServer) -> None:
    perplexity = pytest.importorskip("perplexity", reason="perplexity's SDK is not installed")
    model, options = "perplexity/sonar", {"temperature": 0.2, "top_p": 0.9}
    ours = leaving(OpenAIProvider("perplexity"), f"perplexity/{model}", USED,
                   base_url=f"{server.url}/v1", max_tokens=500, **options)  # fmt: skip
    call = {"call_id": "call_m", "name": "moon", "arguments": '{"phase": "new"}'}

    with perplexity.Perplexity(api_key="test", base_url=server.url) as sdk:
        events = sdk.responses.create(
            model=model, max_output_tokens=500, store=False, stream=True, **options,
            input=[{"type": "message", "role": "user", "content": "Tonight?"},
                   {"type": "function_call", **call},
                   {"type": "function_call_output", "call_id": "call_m", "output": "new"}],
            tools=[{"type": "function", "name": "moon", "description": "Tells the moon's phase.",
                    "parameters": SCHEMA, "strict": False}],
        )  # fmt: skip
        list(events)

    assert (ours.notices, ours.refused_by) == ([], [])
    sent = server.exchanges[-1]
    assert (ours.url, ours.body) == (server.url + sent.path, sent.json)

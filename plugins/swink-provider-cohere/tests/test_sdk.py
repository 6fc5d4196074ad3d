"""The `cohere` package as a second opinion: on what we send, and on what the answers mean."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import swink_provider_cohere
from swink_core import (
    AssistantMessage,
    Context,
    StreamOptions,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_provider_cohere import CohereProvider
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.outgoing import leaving
from swink_testing.driver import fold, run_bytes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what its dependencies deprecate is not our concern
    cohere = pytest.importorskip("cohere", reason="Cohere's SDK is not installed")
    import httpx

PROVIDER = CohereProvider("cohere")
MODEL = "command-a-plus-05-2026"
RECORDINGS = Path(swink_provider_cohere.__file__).parent / "recordings"
STREAMS = sorted(path for path in RECORDINGS.iterdir() if (path / "body.sse").exists())
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
FUNCTION = {"name": "tide", "description": "Tells the tide.", "parameters": SCHEMA}
CALLED = {"id": "tide_1", "type": "function"}
CALLED["function"] = {"name": "tide", "arguments": '{"at": "Dover"}'}  # type: ignore[assignment]

REQUESTS: list[tuple[str, Context, dict[str, Any], dict[str, Any]]] = [
    (
        "tuning",
        Context([UserMessage("Hi")], "Be brief."),
        {
            "temperature": 0.2, "top_p": 0.9, "top_k": 3, "max_tokens": 2000, "seed": 7,
            "stop": ["A"], "thinking": 500,
        },
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
            "temperature": 0.2, "p": 0.9, "k": 3, "max_tokens": 2000, "seed": 7,
            "stop_sequences": ["A"], "thinking": {"type": "enabled", "token_budget": 500},
        },
    ),
    (
        "a schema",
        Context([UserMessage("Hi")]),
        {"response_format": SCHEMA},
        {
            "messages": [{"role": "user", "content": "Hi"}],
            "response_format": {"type": "json_object", "json_schema": SCHEMA},
        },
    ),
    (
        "a tool and its result",
        Context(
            [
                UserMessage("When?"),
                AssistantMessage(
                    [ToolCallBlock("tide_1", "tide", {"at": "Dover"}, '{"at": "Dover"}')]
                ),
                ToolResultMessage("tide_1", "tide", "14:20"),
            ],
            tools=[Tool("tide", "Tells the tide.", SCHEMA, strict=True)],
        ),
        {"tool_choice": "required"},
        {
            "messages": [
                {"role": "user", "content": "When?"},
                {"role": "assistant", "tool_calls": [CALLED]},
                {"role": "tool", "tool_call_id": "tide_1", "content": "14:20"},
            ],
            "tools": [{"type": "function", "function": FUNCTION}],
            "strict_tools": True,
            "tool_choice": "REQUIRED",
        },
    ),
]  # fmt: skip


@pytest.fixture
def server() -> Iterator[CaptureServer]:
    with CaptureServer(b"", content_type="text/event-stream") as server:
        yield server


@pytest.fixture
def sdk(server: CaptureServer) -> Iterator[Any]:
    with httpx.Client(trust_env=False, verify=False) as http:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.14, for the SDK
            made = cohere.ClientV2(api_key="test", base_url=server.url, httpx_client=http)
        yield made


@pytest.mark.parametrize(
    ("name", "context", "options", "arguments"), REQUESTS, ids=[row[0] for row in REQUESTS]
)
def test_we_send_what_the_sdk_sends(
    name: str,
    context: Context,
    options: dict[str, Any],
    arguments: dict[str, Any],
    server: CaptureServer,
    sdk: Any,
) -> None:
    for _ in sdk.chat_stream(model=MODEL, **arguments):
        pass
    assert leaving(PROVIDER, f"cohere/{MODEL}", context, **options).body == server.exchanges[0].json
    assert server.exchanges[0].path == "/v2/chat"


@pytest.mark.parametrize("folder", STREAMS, ids=lambda path: str(path.name))
def test_we_read_what_the_sdk_reads(folder: Path, server: CaptureServer, sdk: Any) -> None:
    server.body = (folder / "body.sse").read_bytes()
    ours = fold(run_bytes(PROVIDER, MODEL, [server.body], options=StreamOptions()))
    texts = {"text": "", "thinking": "", "tool_plan": ""}
    arguments: dict[int, str] = {}
    for event in sdk.chat_stream(model=MODEL, messages=[]):
        if event.type == "content-delta":
            texts["text"] += event.delta.message.content.text or ""
            texts["thinking"] += event.delta.message.content.thinking or ""
        elif event.type == "tool-plan-delta":
            texts["tool_plan"] += event.delta.message.tool_plan
        elif event.type == "tool-call-delta":
            piece = event.delta.message.tool_calls.function.arguments
            arguments[event.index] = arguments.get(event.index, "") + piece
        elif event.type == "message-end":
            counted = event.delta.usage.tokens or event.delta.usage.billed_units

    assert ours.text == texts["text"]
    assert ours.thinking == texts["thinking"] + texts["tool_plan"]
    assert [c.arguments for c in ours.tool_calls] == [
        msgspec.json.decode(text) for text in arguments.values()
    ]
    assert ours.usage is not None
    assert (ours.usage.input, ours.usage.output) == (counted.input_tokens, counted.output_tokens)

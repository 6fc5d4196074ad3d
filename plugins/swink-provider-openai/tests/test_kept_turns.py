"""Answers of each Chat Completions service are kept through two turns and return."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from swink_core import TextBlock, ThinkingBlock, ToolCallBlock
from swink_test_helpers.two_turns import two_turns

DATA = tomllib.loads(files("swink_provider_openai").joinpath("models.toml").read_text("utf-8"))
ELSEWHERE = {"openai": "test_beside.py", "perplexity": "test_perplexity_turns.py"}
SERVICES = [row for row in DATA["providers"] if row["name"] not in ELSEWHERE]
MODELS = {row.get("provider", "openai"): row["id"] for row in reversed(DATA["models"])}
SETTINGS: dict[str, Any] = {"cloudflare": {"account": "acme"}}
LOGPROBS = {"content": [{"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
DETAILS = [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln==", "index": 0}]
CALL = {"index": 0, "id": "call_12345", "type": "function",
        "function": {"name": "look", "arguments": '{"at": "the tide"}'}}  # fmt: skip
FACTS = {"service_tier": "default", "system_fingerprint": "fp_1"}


def frames(*frames: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames)


@pytest.mark.parametrize("service", SERVICES, ids=[row["name"] for row in SERVICES])
async def test_reasoning_text_and_calls_go_back_as_each_service_has_them(
    service: dict[str, Any],
) -> None:
    name, field = service["name"], service.get("dialect", {}).get("replay")
    thought = {"reasoning_details": DETAILS} if field == "reasoning_details" else {}
    thought = thought or {field or "reasoning_content": "Hm."}
    chunks = [{"delta": thought}, {"delta": {"content": "Hi"}, "logprobs": LOGPROBS},
              {"delta": {"tool_calls": [CALL]}},
              {"delta": {}, "finish_reason": "tool_calls"}]  # fmt: skip
    answer = frames(*({"id": "r", **FACTS, "choices": [{"index": 0, **c}]} for c in chunks))
    model = f"{name}/{MODELS.get(name, 'any')}"

    message, body = await two_turns(model, answer, settings=SETTINGS.get(name, {}))

    reasoning, text, call = message.content
    assert message.thinking == "Hm."
    assert isinstance(reasoning, ThinkingBlock)
    assert text == TextBlock("Hi", {"logprobs": LOGPROBS})
    assert isinstance(call, ToolCallBlock)
    assert call.arguments == {"at": "the tide"}
    assert message.metadata == FACTS
    _, said, result, _ = body["messages"]
    assert said["content"] == "Hi"
    assert said["tool_calls"][0]["id"] == result["tool_call_id"]
    assert said["tool_calls"][0]["function"] == CALL["function"]
    sent = {k: v for k, v in said.items() if k not in ("role", "content", "tool_calls")}
    assert sent == (thought if field else {})

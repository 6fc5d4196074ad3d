"""Content other than text is kept through two turns and returns to Azure."""

from __future__ import annotations

import json
from typing import Any

from swink_core import TextBlock
from swink_test_helpers.two_turns import two_turns

RESOURCE = {"base_url": "https://acme.example/openai/v1"}
SAFE = {"hate": {"filtered": False, "severity": "safe"}}


def frames(*frames: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames)


async def test_over_chat_completions_filters_are_kept_and_calls_go_back() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": "{}"}}
    logprobs = {"content": [{"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    answer = frames(
        {"choices": [], "prompt_filter_results": [{"prompt_index": 0,
                                                   "content_filter_results": SAFE}]},
        {"id": "r", "system_fingerprint": "fp_1",
         "choices": [{"delta": {"content": "Hi"}, "logprobs": logprobs,
                      "content_filter_results": SAFE}]},
        {"choices": [{"delta": {"tool_calls": [call]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    )  # fmt: skip

    message, body = await two_turns("azure/gpt-4o", answer, **RESOURCE)

    assert message.content[0] == TextBlock("Hi", {"logprobs": logprobs})
    facts = message.metadata or {}
    assert facts["system_fingerprint"] == "fp_1"
    assert SAFE in facts["content_filter_results"]
    _, said, result, _ = body["messages"]
    assert (said["content"], said["tool_calls"][0]["id"]) == ("Hi", "call_1")
    assert result == {"role": "tool", "tool_call_id": "call_1", "content": "done"}
    assert body["model"] == "gpt-4o"


async def test_over_responses_encrypted_reasoning_goes_back_before_what_it_led_to() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x+/=="}
    part = {"type": "output_text", "text": "Hi", "annotations": []}
    message_item = {"type": "message", "id": "msg_1", "content": [part]}
    done = {"status": "completed", "content_filters": [SAFE]}
    answer = frames(
        {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Hi"},
        {"type": "response.output_item.done", "output_index": 1, "item": message_item},
        {"type": "response.completed", "response": done},
    )

    message, body = await two_turns("azure/gpt-5.5", answer, **RESOURCE)

    assert (message.metadata or {})["content_filters"] == [SAFE]
    _, thought, said, _ = body["input"]
    assert thought == reasoning
    assert (said["id"], said["content"]) == ("msg_1", [part])
    assert body["include"] == ["reasoning.encrypted_content"]


async def test_free_text_for_a_tool_goes_back_as_it_came() -> None:
    call = {"id": "call_1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    answer = frames(
        {"choices": [{"delta": {"tool_calls": [{"index": 0, **call}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    )

    message, body = await two_turns("azure/gpt-4o", answer, **RESOURCE)

    assert message.tool_calls[0].arguments == {"input": "ls"}
    assert body["messages"][1]["tool_calls"] == [call]

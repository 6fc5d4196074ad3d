"""Content other than text is kept through two turns and returns to xAI."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import ExtensionBlock, TextBlock, ThinkingBlock, ToolCallBlock
from swink_test_helpers.two_turns import two_turns


def frames(*frames: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames)


def item(number: int, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": number, "item": fields}


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x+/=="}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed",
          "action": {"type": "search", "query": "tides"}}  # fmt: skip
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look",
        "arguments": '{"at": "the tide"}', "status": "completed"}  # fmt: skip
CITED = {"type": "url_citation", "url": "https://a.example", "start_index": 0, "end_index": 2}
MESSAGE = {"type": "message", "id": "msg_1",
           "content": [{"type": "output_text", "text": "Hi", "annotations": [CITED]}]}  # fmt: skip
DONE = {"type": "response.completed", "response": {"status": "completed", "id": "resp_1"}}


@pytest.mark.parametrize("model", ["grok-4.7", "grok-4.3", "grok-build-0.1"])
async def test_reasoning_searches_calls_and_citations_go_back(model: str) -> None:
    said = {"type": "response.output_text.delta", "output_index": 2, "delta": "Hi"}
    answer = frames(
        item(0, **REASONING), item(1, **SEARCH), said, item(2, **MESSAGE), item(3, **CALL), DONE
    )

    message, body = await two_turns(f"xai/{model}", answer)

    thought, searched, text, call = message.content
    assert isinstance(thought, ThinkingBlock)
    assert searched == ExtensionBlock("xai", "web_search_call", SEARCH)
    assert isinstance(text, TextBlock)
    assert (text.metadata or {})["annotations"] == [CITED]
    assert isinstance(call, ToolCallBlock)
    assert call.arguments == {"at": "the tide"}
    sent = body["input"][1:]
    assert sent[:2] == [REASONING, SEARCH]
    assert sent[2]["content"] == MESSAGE["content"]
    assert sent[3]["call_id"] == sent[4]["call_id"] == "call_1"
    assert sent[3]["arguments"] == CALL["arguments"]
    assert sent[4]["type"] == "function_call_output"


async def test_over_chat_completions_calls_go_back_and_reasoning_does_not() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "look", "arguments": "{}"}}
    chunks = [{"delta": {"reasoning_content": "Hm."}}, {"delta": {"content": "Hi"}},
              {"delta": {"tool_calls": [call]}},
              {"delta": {}, "finish_reason": "tool_calls"}]  # fmt: skip
    answer = frames(*({"choices": [{"index": 0, **chunk}]} for chunk in chunks))

    message, body = await two_turns("xai/grok-4.7", answer, settings={"api": "chat"})

    assert message.thinking == "Hm."
    _, said, result, _ = body["messages"]
    assert said["content"] == "Hi"
    assert "reasoning_content" not in said
    assert said["tool_calls"][0]["id"] == result["tool_call_id"] == "call_1"


async def test_free_text_for_a_tool_goes_back_as_it_came() -> None:
    call = {"id": "call_1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}
    answer = frames(
        {"choices": [{"delta": {"tool_calls": [{"index": 0, **call}]}}]},
        {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    )

    message, body = await two_turns("xai/grok-4.7", answer, settings={"api": "chat"})

    assert message.tool_calls[0].arguments == {"input": "ls"}
    assert body["messages"][1]["tool_calls"] == [call]


async def test_log_probabilities_and_the_tier_are_kept() -> None:
    logprobs = {"content": [{"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    said = {"delta": {"content": "Hi"}, "logprobs": logprobs, "finish_reason": "stop"}
    answer = frames({"service_tier": "default", "system_fingerprint": "fp_1", "choices": [said]})

    message, _ = await two_turns("xai/grok-4.7", answer, settings={"api": "chat"})

    assert message.content == [TextBlock("Hi", {"logprobs": logprobs})]
    assert message.metadata == {"service_tier": "default", "system_fingerprint": "fp_1"}

"""Content other than text is kept through two turns and returns to Cohere."""

from __future__ import annotations

import json
from typing import Any

from swink_core import TextBlock, ThinkingBlock
from swink_test_helpers.two_turns import two_turns

CITED = {"start": 0, "end": 2, "text": "At", "sources": [{"type": "document", "id": "doc:0"}]}
TOKEN = {"text": "At noon.", "token_ids": [1], "logprobs": [-0.1]}


def frames(*frames: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames)


def told(type: str, index: int = 0, **message: Any) -> dict[str, Any]:
    return {"type": type, "index": index, "delta": {"message": message}}


END = {"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}


async def test_reasoning_citations_and_log_probabilities_are_kept() -> None:
    answer = frames(
        told("content-start", content={"type": "thinking", "thinking": ""}),
        told("content-delta", content={"thinking": "Hm."}),
        {"type": "content-end", "index": 0},
        told("content-start", 1, content={"type": "text", "text": ""}),
        {**told("content-delta", 1, content={"text": "At noon."}), "logprobs": TOKEN},
        told("citation-start", citations=CITED),
        END,
    )

    message, sent = await two_turns("cohere/command-a-plus-05-2026", answer)

    assert message.content == [
        ThinkingBlock("Hm."),
        TextBlock("At noon.", {"citations": [CITED], "logprobs": [TOKEN]}),
    ]
    back = sent["messages"][1]
    assert {"type": "text", "text": "At noon."} in back["content"] or back["content"] == "At noon."


async def test_a_plan_and_its_calls_go_back() -> None:
    call = {"id": "look_1", "type": "function", "function": {"name": "look", "arguments": ""}}
    answer = frames(
        told("tool-plan-delta", tool_plan="I look."),
        told("tool-call-start", tool_calls=call),
        told("tool-call-delta", tool_calls={"function": {"arguments": '{"at": "noon"}'}}),
        {"type": "tool-call-end", "index": 0},
        {"type": "message-end", "delta": {"finish_reason": "TOOL_CALL"}},
    )

    message, sent = await two_turns("cohere/command-a-03-2025", answer)

    assert message.thinking == "I look."
    _, said, result, _ = sent["messages"]
    assert said["tool_plan"] == "I look."
    assert said["tool_calls"][0]["id"] == result["tool_call_id"] == "look_1"
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"at": "noon"}

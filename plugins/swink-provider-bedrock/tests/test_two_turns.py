"""The answer returns unchanged in the next request: signatures, redacted reasoning, server-side
tools, citations, calls and their results.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from converse import CONTENT_TYPE
from converse_model import misfits

from swink_core import (
    AssistantMessage,
    Client,
    Context,
    Message,
    StopReason,
    ToolResultMessage,
    UserMessage,
    dump,
    load,
)
from swink_provider_bedrock.eventstream import EventStreamDecoder, message
from swink_test_helpers.corpus import Case, ids, shipped_answers, stream_cases
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

ANSWERS = [
    *shipped_answers("swink_provider_bedrock"),
    *(
        case
        for case in stream_cases("bedrock")
        if (case.expect["reference_parse"] or {}).get("stop_reason")
    ),
]


def _sent_blocks(body: bytes) -> list[dict[str, Any]]:
    """The content blocks of an answer, put together from its events by nothing but JSON."""
    blocks: dict[int, dict[str, Any]] = {}
    for frame in EventStreamDecoder().feed(body):
        data = json.loads(message(frame).payload)
        if "start" in data:
            blocks[data["contentBlockIndex"]] = dict(data["start"])
        elif "delta" in data:
            _apply(blocks.setdefault(data["contentBlockIndex"], {}), data["delta"])
    return [kept for block in blocks.values() if (kept := _as_accepted(block))]


def _apply(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match delta:
        case {"text": text}:
            block["text"] = block.get("text", "") + text
        case {"toolUse": {"input": piece}}:
            block["toolUse"]["input"] = block["toolUse"].get("input", "") + piece
        case {"toolResult": content}:
            block["toolResult"] = {**block["toolResult"], "content": content}
        case {"citation": citation}:
            block["citations"] = [*block.get("citations", []), citation]
        case {"reasoningContent": piece}:
            known = block.setdefault("reasoningContent", {})
            for name, value in piece.items():
                known[name] = known.get(name, "") + value


def _as_accepted(block: dict[str, Any]) -> dict[str, Any] | None:
    """In requests reasoning and citations have another form, input is an object, and neither
    blank text nor unsigned reasoning is taken by every model."""
    match block:
        case {"citations": citations, "text": text}:
            return {"citationsContent": {"content": [{"text": text}], "citations": citations}}
        case {"text": text}:
            return block if text.strip() else None
        case {"toolUse": use}:
            use = {
                name: value for name, value in use.items() if (name, value) != ("type", "tool_use")
            }
            return {"toolUse": {**use, "input": json.loads(use.get("input") or "{}")}}
        case {"reasoningContent": {"redactedContent": _}}:
            return block
        case {"reasoningContent": {"signature": _} as text}:
            return {"reasoningContent": {"reasoningText": text}}
        case {"reasoningContent": _}:
            return None
    return block


def _response(body: bytes) -> MemoryResponse:
    return MemoryResponse([body], headers={"Content-Type": CONTENT_TYPE})


async def _ask(client: Client, messages: list[Message]) -> AssistantMessage:
    context = Context(messages)
    options = {"base_url": "http://bedrock.invalid"}
    async with client.stream("bedrock/us.anthropic.any", context, **options) as stream:
        return await stream.result()


@pytest.mark.parametrize("case", ANSWERS, ids=ids)
async def test_an_answer_goes_back_as_it_came(case: Case) -> None:
    http = MemoryHTTPClient(_response(case.body), _response(case.body))
    async with client_with(http=http, api_key="test") as client:
        conversation: list[Message] = [UserMessage("Hello")]
        answer = await _ask(client, conversation)
        stored = load(AssistantMessage, json.loads(json.dumps(dump(answer))))
        assert stored == answer
        conversation.append(stored)
        conversation.extend(ToolResultMessage(c.id, c.name, "done") for c in answer.tool_calls)
        conversation.append(UserMessage("Go on"))
        await _ask(client, conversation)

    first, second = http.bodies
    assert misfits(second) == []
    assert second["messages"][0] == first["messages"][0]
    assert second["messages"][1] == {"role": "assistant", "content": _sent_blocks(case.body)}
    results = [b["toolResult"] for b in second["messages"][2]["content"] if "toolResult" in b]
    assert [(r["toolUseId"], r["content"]) for r in results] == [
        (call.id, [{"text": "done"}]) for call in answer.tool_calls
    ]
    assert bool(results) is (answer.stop_reason is StopReason.TOOL_USE)

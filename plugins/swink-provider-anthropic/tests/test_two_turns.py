"""The answer returns unchanged in the next request: signatures, encrypted and redacted reasoning,
server-side tools, citations, calls and their results.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from messages_api import START, STOP, TOOL, block, body, ended, input_json

from swink_core import (
    AssistantMessage,
    Context,
    Message,
    StopReason,
    ToolResultMessage,
    UserMessage,
    dump,
    load,
)
from swink_provider_anthropic import AnthropicProvider
from swink_test_helpers.corpus import Case, ids, shipped_answers, stream_cases
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

PROVIDER = AnthropicProvider("anthropic")
SSE = {"Content-Type": "text/event-stream"}

ANSWERS = [
    *shipped_answers("swink_provider_anthropic"),
    *(
        case
        for case in stream_cases("anthropic")
        if case.reference["error"] is None
        and case.reference["stop_reason"] != "refusal"  # without any content
        and "truncated" not in case.features
    ),
]


def _sent_blocks(data: bytes) -> list[dict[str, Any]]:
    """The content blocks of an answer, put together from its frames by nothing but JSON."""
    frames = [json.loads(line[5:]) for line in data.splitlines() if line.startswith(b"data:")]
    blocks: list[dict[str, Any]] = []
    inputs: dict[int, str] = {}
    for frame in frames:
        match frame["type"]:
            case "message_start":
                blocks = list(frame["message"]["content"])
                inputs.clear()
            case "content_block_start":
                blocks.append(frame["content_block"])
            case "content_block_delta":
                _apply(blocks[frame["index"]], frame["delta"], inputs, frame["index"])
    for index, text in inputs.items():
        blocks[index]["input"] = _parsed(text)
    return [kept for block in blocks if (kept := _as_accepted(block))]


def _apply(block: dict[str, Any], delta: dict[str, Any], inputs: dict[int, str], at: int) -> None:
    match delta["type"]:
        case "input_json_delta":
            inputs[at] = inputs.get(at, "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "compaction_delta":
            block.update({name: delta[name] for name in delta if name != "type"})
        case _:
            [field] = [name for name in delta if name != "type"]
            block[field] = block.get(field, "") + delta[field]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text or "{}")
    except ValueError:  # cut off: what was there travels in an object
        return {"INVALID_JSON": text}


def _as_accepted(block: dict[str, Any]) -> dict[str, Any] | None:
    """The API takes no empty text, no empty list of citations and no `file_id` in one; the order
    of keys in a block that is made anew is our own."""
    if block["type"] == "text":
        citations = [
            {name: value for name, value in citation.items() if name != "file_id"}
            for citation in block.get("citations") or []
        ]
        kept = {"type": "text", "text": block["text"]}
        return {**kept, "citations": citations} if citations else kept if block["text"] else None
    if block["type"] == "redacted_thinking":
        return {"type": "redacted_thinking", "data": block["data"]}
    return block


async def _turns(
    data: bytes, stored: bool, options: dict[str, Any]
) -> tuple[AssistantMessage, dict[str, Any]]:
    """The answer to a first request, and the second request, which carries it."""
    http = MemoryHTTPClient(
        MemoryResponse([data], headers=SSE), MemoryResponse([data], headers=SSE)
    )
    async with client_with(http=http, api_key="test", **options) as client:
        answer = await client.complete("anthropic/any", "Hi")
        if stored:
            answer = load(AssistantMessage, json.loads(json.dumps(dump(answer))))
        messages: list[Message] = [UserMessage("Hi"), answer]
        for call in answer.tool_calls:
            messages.append(ToolResultMessage(call.id, call.name, "done"))
        if answer.stop_reason is not StopReason.PAUSE:
            messages.append(UserMessage("And?"))
        await client.complete("anthropic/any", Context(messages))
    return answer, http.bodies[1]


def _same_json(one: Any, other: Any) -> bool:
    """Equal with the order of keys and the form of numbers."""
    return json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize("stored", [False, True], ids=["kept", "stored"])
@pytest.mark.parametrize("case", ANSWERS, ids=ids)
async def test_the_answer_goes_back_as_it_came(case: Case, stored: bool) -> None:
    _, second = await _turns(case.body, stored, {})

    expected = _sent_blocks(case.body)
    assert second["messages"][1]["role"] == "assistant"
    content = second["messages"][1]["content"]
    assert len(content) == len(expected)
    for sent, received in zip(content, expected, strict=True):
        assert _same_json(sent, received)


@pytest.mark.parametrize("case", ANSWERS, ids=ids)
async def test_every_call_is_answered_first_thing_in_the_next_turn(case: Case) -> None:
    answer, second = await _turns(case.body, False, {})

    said = second["messages"][-1]["content"]
    results = [
        {
            "type": "tool_result",
            "tool_use_id": call.id,
            "content": [{"type": "text", "text": "done"}],
        }
        for call in answer.tool_calls
    ]
    if answer.stop_reason is StopReason.PAUSE:
        assert said == second["messages"][1]["content"]  # the model goes on with its own turn
    else:
        assert said[-1] == {"type": "text", "text": "And?"}
        assert [block for block in said if block["type"] == "tool_result"] == results
        assert said[: len(results)] == results


async def test_code_that_waits_in_a_container_finds_it_again() -> None:
    waiting = {"caller": {"type": "code_execution_20250825", "tool_id": "s1"}}
    answer = body(
        {**START, "message": {**START["message"], "container": {"id": "container_1"}}},
        *block(0, {**TOOL, **waiting}, input_json("{}")),
        ended("tool_use"),
        STOP,
    )
    _, second = await _turns(answer, True, {})
    assert second["container"] == "container_1"


@pytest.mark.parametrize("case", ANSWERS, ids=ids)
async def test_marks_for_the_cache_leave_the_answer_alone(case: Case) -> None:
    _, plain = await _turns(case.body, False, {})
    _, marked = await _turns(case.body, False, {"cache": "auto"})
    assert marked["messages"][1] == plain["messages"][1]
    assert marked["messages"] != plain["messages"]

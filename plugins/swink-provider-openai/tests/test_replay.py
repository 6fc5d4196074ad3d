"""Two turns: content of the first answer returns in the second request."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Client,
    Context,
    RetryPolicy,
    ToolResultMessage,
    UserMessage,
)
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SSE = {"Content-Type": "text/event-stream"}


def stream(*deltas: dict[str, Any], finish: str = "stop") -> MemoryResponse:
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    last = {"choices": [{"delta": {}, "finish_reason": finish}]}
    frames = [*(json.dumps(chunk) for chunk in [*chunks, last]), "[DONE]"]
    return MemoryResponse([f"data: {frame}\n\n".encode() for frame in frames], headers=SSE)


async def replayed(
    first: MemoryResponse, model: str = "openai/any", then: str | None = None
) -> tuple[AssistantMessage, list[dict[str, Any]]]:
    """The first turn's answer, and the messages of a second turn with all calls answered."""
    http = MemoryHTTPClient(first, stream({"content": "Done."}))
    async with client_with(http=http, api_key="test") as client:
        answer = await client.complete(model, "Go.")
        results = [
            ToolResultMessage(call.id, call.name, str(number))
            for number, call in enumerate(answer.tool_calls)
        ]
        turns = [UserMessage("Go."), answer, *results, UserMessage("And?")]
        await client.complete(then or model, Context(turns))
    messages: list[dict[str, Any]] = http.bodies[1]["messages"]
    return answer, messages


def calls(*fragments: dict[str, Any]) -> dict[str, Any]:
    return {"tool_calls": [*fragments]}


CALL = {"index": 0, "id": "a", "function": {"name": "f", "arguments": "{}"}}

THOUGHT: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("DeepSeek", "deepseek/any", {"reasoning_content": "Hm.\n"}, {"reasoning_content": "Hm.\n"}),
    ("llama.cpp", "llamacpp/any", {"reasoning_content": "Hm."}, {"reasoning_content": "Hm."}),
    ("Groq", "groq/any", {"reasoning": "Hm."}, {"reasoning": "Hm."}),
    ("Together", "together/any", {"reasoning": "Hm."}, {}),
    ("OpenAI", "openai/any", {"reasoning_content": "Hm."}, {}),
    ("DeepSeek, without a thought", "deepseek/any", {"content": ""}, {"reasoning_content": ""}),
    ("Groq, without a thought", "groq/any", {"content": ""}, {}),
]


@pytest.mark.parametrize(("name", "model", "delta", "fields"), THOUGHT)
async def test_reasoning_goes_back_in_the_field_that_the_service_reads(
    name: str, model: str, delta: dict[str, Any], fields: dict[str, Any]
) -> None:
    _, messages = await replayed(stream(delta, calls(CALL), finish="tool_calls"), model)

    own = {"role", "content", "tool_calls"}
    assert {k: v for k, v in messages[1].items() if k not in own} == fields


DETAILS: list[list[dict[str, Any]]] = [
    [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln==", "index": 0, "format": "f"}],
    [{"type": "reasoning.encrypted", "data": "x+/==\n", "id": "rs_1", "index": 0, "format": None}],
    [
        {"type": "reasoning.summary", "summary": "Sum \ud7ff é", "index": 0},
        {"type": "reasoning.encrypted", "data": "eA==", "index": 0},
    ],
    [{"type": "reasoning.text", "text": "", "index": 0, "new": {"deep": [1, 2.5, None]}}],
]


@pytest.mark.parametrize("details", DETAILS)
async def test_reasoning_details_go_back_byte_for_byte(details: list[dict[str, Any]]) -> None:
    first = stream({"reasoning_details": details}, {"content": "Yes."})

    _, messages = await replayed(first, "openrouter/any")

    assert json.dumps(messages[1]["reasoning_details"]) == json.dumps(details)


async def test_reasoning_details_that_came_in_pieces_go_back_whole() -> None:
    pieces = [
        {"type": "reasoning.text", "text": "Hm", "index": 0, "format": "f"},
        {"type": "reasoning.text", "text": ".", "index": 0, "format": "f"},
        {"type": "reasoning.text", "signature": "c2ln==", "index": 0, "format": "f"},
    ]
    late = {"type": "reasoning.encrypted", "data": "eA==", "index": 1}
    first = stream(
        *({"reasoning_details": [piece]} for piece in pieces),
        {"content": "Yes."},
        calls(CALL),
        {"reasoning_details": [late]},
        finish="tool_calls",
    )

    _, messages = await replayed(first, "openrouter/any")

    whole = {"type": "reasoning.text", "text": "Hm.", "index": 0, "format": "f",
             "signature": "c2ln=="}  # fmt: skip
    assert messages[1]["reasoning_details"] == [whole, late]


async def test_another_service_s_reasoning_stays_behind() -> None:
    details = [{"type": "reasoning.text", "text": "Hm.", "signature": "c2ln=="}]
    first = stream({"reasoning": "Hm.", "reasoning_details": details}, {"content": "Yes."})

    _, messages = await replayed(first, "openrouter/any", then="deepseek/any")

    assert messages[1] == {"role": "assistant", "content": "Yes."}


@pytest.mark.parametrize(
    "arguments", ['{"x": 1 ,"y":"é\\u00e9"}', '{\n "x" : 1.0 }', '{"b":1,"a":1e3}']
)
async def test_arguments_go_back_as_the_model_wrote_them(arguments: str) -> None:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}

    _, messages = await replayed(stream(calls(call), finish="tool_calls"))

    assert messages[1]["tool_calls"][0]["function"]["arguments"] == arguments


async def test_broken_arguments_go_back_in_an_object() -> None:
    call = {**CALL, "function": {"name": "f", "arguments": '{"x": oops'}}

    answer, messages = await replayed(stream(calls(call), finish="tool_calls"))

    assert answer.tool_calls[0].state == "invalid"
    sent = messages[1]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"INVALID_JSON": '{"x": oops'}


async def test_two_calls_without_ids_are_answered_each_by_its_own_result() -> None:
    call = {"function": {"name": "f", "arguments": "{}"}}

    answer, messages = await replayed(stream(calls(call, call), finish="tool_calls"))

    sent = [call["id"] for call in messages[1]["tool_calls"]]
    assert len(set(sent)) == 2
    assert not {call.id for call in answer.tool_calls} & set(sent)
    assert [(m["tool_call_id"], m["content"]) for m in messages[2:4]] == [
        (sent[0], "0"),
        (sent[1], "1"),
    ]


async def test_text_split_from_think_tags_goes_back_without_them() -> None:
    first = stream({"content": "<think>Hm.</think>"}, {"content": "Yes."})

    _, messages = await replayed(first, "together/any")

    assert messages[1] == {"role": "assistant", "content": "Yes."}


async def test_a_call_with_free_text_goes_back_as_one_over_either_api() -> None:
    custom = {"name": "sql", "input": 'SELECT "1"'}
    call = {"index": 0, "id": "call_1", "type": "custom", "custom": custom}
    http = MemoryHTTPClient(
        stream({"tool_calls": [call]}, finish="tool_calls"), stream({"content": "One."}), stream()
    )
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        options: dict[str, Any] = {"api_key": "k", "settings": {"api": "chat"}}
        said = await client.complete("openai/any", "Count.", **options)
        messages = [
            UserMessage("Count."), said, ToolResultMessage("call_1", "sql", "1"),
        ]  # fmt: skip
        await client.complete("openai/any", messages, **options)
        options["settings"] = {"api": "responses"}
        async with client.stream("openai/any", messages, **options) as events:
            async for _ in events:
                pass
    _, chat, responses = http.bodies
    assert chat["messages"][1:] == [
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "custom", "custom": custom}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    ]  # fmt: skip
    assert responses["input"][1:] == [
        {"type": "custom_tool_call", "call_id": "call_1", **custom},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"},
    ]


@pytest.mark.parametrize("text", ['SELECT "', "SELECT", ""])
async def test_free_text_that_was_cut_short_goes_back_as_far_as_it_came(text: str) -> None:
    custom = {"name": "sql", "input": text}
    call = {"index": 0, "id": "call_1", "type": "custom", "custom": custom}
    first = stream({"tool_calls": [call]}, finish="length")

    _, messages = await replayed(first)

    assert messages[1]["tool_calls"] == [{"id": "call_1", "type": "custom", "custom": custom}]

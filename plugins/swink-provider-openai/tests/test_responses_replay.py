"""Second turns over the Responses API: content of the first answer returns unchanged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from responses_cases import STREAMS, provider_of

from swink_core import (
    AssistantMessage,
    Context,
    ExtensionBlock,
    Message,
    RetryPolicy,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    dump,
    load,
)
from swink_core.providers import synthetic_id
from swink_test_helpers.corpus import Case, ids
from swink_test_helpers.two_turns import two_turns
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

ANSWER = (
    b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}\n\n'
    b'data: {"type": "response.completed", "response": {"status": "completed"}}\n\n'
)
RESPONSES = {"api": "responses"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
THOUGHT = ThinkingBlock("", metadata={"item": REASONING})
UNENCRYPTED = ThinkingBlock("", metadata={"item": {**REASONING, "encrypted_content": None}})
SAID = TextBlock("Hi.", {"item": {"id": "msg_1", "phase": "final_answer"}})
CALL = ToolCallBlock("call_1", "look", {}, "{}", metadata={"item": {"id": "fc_1"}})

MESSAGE = {"type": "message", "role": "assistant", "id": "msg_1", "phase": "final_answer",
           "status": "completed",
           "content": [{"type": "output_text", "text": "Hi.", "annotations": []}]}  # fmt: skip
PLAIN = {"role": "assistant", "content": "Hi.", "phase": "final_answer"}
FUNCTION_CALL = {
    "type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}", "id": "fc_1",
}  # fmt: skip
SEARCH = {"type": "web_search_call", "id": "ws_1", "action": {"type": "search"}}
REFERENCE = {"type": "item_reference", "id": "ws_1"}


async def sent(messages: list[Message], provider: str = "openai", **extra: Any) -> list[Any]:
    """Return the input that a conversation becomes."""
    http = MemoryHTTPClient(MemoryResponse([ANSWER]))
    async with client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client:
        options = {"settings": RESPONSES, "extra": extra}
        await client.complete(f"{provider}/any", Context(messages), **options)
    found: list[Any] = http.bodies[0]["input"]
    return found


def without_id(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name not in ("id", "status")}


async def second_turn(*content: Any, **extra: Any) -> list[Any]:
    answer = AssistantMessage(list(content), "openai")
    results: list[Message] = [ToolResultMessage(c.id, c.name, "x") for c in answer.tool_calls]
    items = await sent([UserMessage("Hi"), answer, *results, UserMessage("Go on.")], **extra)
    return items[1 : -1 - len(results)]


SECOND: list[tuple[str, list[Any], dict[str, Any], list[Any]]] = [
    ("encrypted reasoning", [THOUGHT, SAID], {}, [REASONING, MESSAGE]),
    ("reasoning that can be read",
     [ThinkingBlock("Hm.", metadata={"item": {**REASONING, "content": [{"text": "Hm."}]}}), SAID],
     {}, [{**REASONING, "content": [{"text": "Hm."}]}, MESSAGE]),
    ("reasoning that is not stored", [UNENCRYPTED, SAID], {}, [PLAIN]),
    ("a call without the reasoning before it",
     [UNENCRYPTED, CALL], {}, [without_id(FUNCTION_CALL)]),
    ("reasoning that the service keeps", [UNENCRYPTED, SAID], {"store": True},
     [{**REASONING, "encrypted_content": None}, MESSAGE]),
    ("reasoning without a following item", [SAID, THOUGHT], {}, [MESSAGE]),
    ("reasoning that ended after the text it came before",
     [ThinkingBlock("Hm."), SAID, ThinkingBlock("", metadata={"item": REASONING, "place": 0})],
     {}, [REASONING, MESSAGE]),
    ("parts of one message", [SAID, SAID], {},
     [{**MESSAGE, "content": MESSAGE["content"] * 2}]),  # type: ignore[operator]  # it is a list
    ("a refusal", [TextBlock("No.", {"item": {"id": "msg_1", "refused": True}})], {},
     [{**without_id(MESSAGE), "id": "msg_1", "status": "completed",
       "content": [{"type": "refusal", "refusal": "No."}]} | {"phase": None}]),
    ("annotations", [TextBlock("Hi.", {"item": {"id": "msg_1"}, "annotations": [{"a": 1}]})], {},
     [{**MESSAGE, "phase": None,
       "content": [{"type": "output_text", "text": "Hi.", "annotations": [{"a": 1}]}]}]),
    ("an extension between", [THOUGHT, ExtensionBlock("openai", "x", {"type": "x", "id": "x_1"}),
                              SAID], {}, [REASONING, {"type": "x", "id": "x_1"}, MESSAGE]),
    ("an extension without the reasoning before it",
     [UNENCRYPTED, ExtensionBlock("openai", "web_search_call", SEARCH), SAID],
     {}, [{"type": "web_search_call", "action": {"type": "search"}}, PLAIN]),
    ("a reference without the reasoning before it",
     [UNENCRYPTED, ExtensionBlock("openai", "item_reference", REFERENCE)], {}, [REFERENCE]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "extra", "expected"), SECOND)
async def test_a_second_turn_holds(
    name: str, content: list[Any], extra: dict[str, Any], expected: list[Any]
) -> None:
    wanted = [{k: v for k, v in item.items() if k != "phase" or v} for item in expected]

    assert await second_turn(*content, **extra) == wanted


async def test_a_call_goes_back_with_its_reasoning_and_its_result() -> None:
    items = await sent([
        UserMessage("Look."),
        AssistantMessage([THOUGHT, CALL], "openai", stop_reason=StopReason.TOOL_USE),
        ToolResultMessage("call_1", "look", "a light"),
    ])  # fmt: skip

    assert items[1:] == [
        REASONING,
        FUNCTION_CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": "a light"},
    ]


async def test_a_call_with_free_text_goes_back_as_one_and_so_does_its_result() -> None:
    metadata = {"item": {"type": "custom_tool_call", "id": "ct_1"}}
    call = ToolCallBlock("call_1", "sql", {"input": "SELECT 1"}, metadata=metadata)
    items = await sent([
        UserMessage("Look."),
        AssistantMessage([call], "openai"),
        ToolResultMessage("call_1", "sql", "1"),
    ])  # fmt: skip

    assert items[1:] == [
        {"type": "custom_tool_call", "call_id": "call_1", "name": "sql", "input": "SELECT 1",
         "id": "ct_1"},
        {"type": "custom_tool_call_output", "call_id": "call_1", "output": "1"},
    ]  # fmt: skip


async def test_an_answer_cut_short_keeps_no_reasoning_that_the_service_would_refuse() -> None:
    cut = AssistantMessage([THOUGHT], "openai", stop_reason=StopReason.ERROR)

    assert await sent([UserMessage("Hi"), cut, UserMessage("Again.")]) == [
        {"role": "user", "content": "Hi"},
        {"role": "user", "content": "Again."},
    ]


@pytest.mark.parametrize("provider", ["openrouter", "openai"])
async def test_reasoning_that_comes_last_goes_back_to_a_service_of_many_vendors(
    provider: str,
) -> None:
    reasoning = {**REASONING, "format": "google-gemini-v1", "encrypted_content": "AbC+/="}
    message = {"type": "message", "id": "msg_1", "content": [{"type": "output_text"}]}
    frames: list[dict[str, Any]] = [
        {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.output_item.done", "output_index": 1, "item": reasoning},
        {"type": "response.completed", "response": {"status": "completed"}},
    ]
    answer = b"".join(b"data: %s\n\n" % msgspec.json.encode(frame) for frame in frames)

    kept, body = await two_turns(f"{provider}/google/gemini", answer, settings=RESPONSES)

    assert kept.content[-1] == ThinkingBlock("", metadata={"item": reasoning})
    types = [item.get("type") for item in body["input"]]
    assert types == [None, "message", *(["reasoning"] if provider == "openrouter" else []), None]
    assert (reasoning in body["input"]) is (provider == "openrouter")


@pytest.mark.parametrize("reason", [StopReason.LENGTH, StopReason.ABORTED])
async def test_of_an_answer_cut_short_reasoning_that_comes_last_stays_here(
    reason: StopReason,
) -> None:
    thought = ThinkingBlock("", metadata={"item": REASONING})
    answer = AssistantMessage([SAID, thought], "openrouter", stop_reason=reason)
    items = await sent([UserMessage("Hi"), answer, UserMessage("Go on.")], "openrouter")
    assert REASONING not in items


async def test_what_another_provider_said_goes_as_plain_words() -> None:
    foreign = AssistantMessage([THOUGHT, SAID, CALL], "xai")

    items = await sent([UserMessage("Hi"), foreign, ToolResultMessage("call_1", "look", "x")])

    assert items[1:3] == [
        {"role": "assistant", "content": "Hi."},
        {"type": "function_call", "call_id": "call_1", "name": "look", "arguments": "{}"},
    ]  # fmt: skip


async def test_chat_completions_leaves_out_what_responses_keeps() -> None:
    items = await second_turn(THOUGHT, SAID, CALL)
    http = MemoryHTTPClient(
        MemoryResponse([b'data: {"choices": [{"delta": {"content": "Hi"}, "finish_reason": '
                        b'"stop"}]}\n\n'])
    )  # fmt: skip
    async with client_with(http=http, api_key="test") as client:
        await client.complete("openai/any", [
            UserMessage("Hi"), AssistantMessage([THOUGHT, SAID, CALL], "openai"),
            ToolResultMessage("call_1", "look", "x"),
        ])  # fmt: skip

    assert len(items) == 3
    assert http.bodies[0]["messages"][1] == {
        "role": "assistant", "content": "Hi.", "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
    }  # fmt: skip


async def test_generated_ids_differ_from_those_of_the_server() -> None:
    generated = synthetic_id("x", 1)
    items = await sent([
        UserMessage("Look."),
        AssistantMessage([ToolCallBlock("call_0", "look"), ToolCallBlock(generated, "look")]),
        ToolResultMessage("call_0", "look", "x"),
        ToolResultMessage(generated, "look", "y"),
    ])  # fmt: skip

    assert [item["call_id"] for item in items[1:]] == ["call_0", "call_swink_0"] * 2


async def test_ids_that_were_made_up_are_numbered() -> None:
    made_up = synthetic_id("x", 0)
    items = await sent([
        UserMessage("Look."),
        AssistantMessage([ToolCallBlock(made_up, "look")], "openai"),
        ToolResultMessage(made_up, "look", "x"),
    ])  # fmt: skip

    assert [item["call_id"] for item in items[1:]] == ["call_swink_0", "call_swink_0"]


def _recorded_items(case: Case) -> list[Any]:
    """Return the output that a recorded answer says it has, as its last event does."""
    last = next(
        msgspec.json.decode(line.removeprefix(b"data:"))
        for line in case.body.splitlines()
        if b'"response.completed"' in line and line.startswith(b"data:")
    )
    items: list[Any] = last["response"]["output"]
    return items


REPLAYED = [
    case
    for case in STREAMS
    if case.reference["status"] == "completed" and b'"encrypted_content":"' in case.body
]


@pytest.mark.parametrize("case", REPLAYED, ids=ids)
async def test_recorded_reasoning_goes_back_byte_for_byte(case: Case) -> None:
    provider = provider_of(case).name
    http = MemoryHTTPClient(MemoryResponse([case.body]), MemoryResponse([ANSWER]))
    async with client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client:
        answer = await client.complete(f"{provider}/any", "Hi", settings=RESPONSES)
        kept = load(AssistantMessage, msgspec.json.decode(msgspec.json.encode(dump(answer))))
        results: list[Message] = [
            ToolResultMessage(call.id, call.name, "done") for call in kept.tool_calls
        ]
        messages = [UserMessage("Hi"), kept, *results, UserMessage("Go on.")]
        await client.complete(f"{provider}/any", messages, settings=RESPONSES)

    items = [msgspec.json.encode(item) for item in http.bodies[1]["input"]]
    reasoning = [
        msgspec.json.encode(block.metadata["item"])
        for block in answer.content
        if isinstance(block, ThinkingBlock) and block.metadata
    ]
    for item in reasoning:
        assert item in items
    recorded = [item["encrypted_content"] for item in _recorded_items(case)
                if item["type"] == "reasoning" and item.get("encrypted_content")]  # fmt: skip
    back = [item["encrypted_content"] for item in http.bodies[1]["input"]
            if item.get("type") == "reasoning"]  # fmt: skip
    assert len(back) == len(recorded)

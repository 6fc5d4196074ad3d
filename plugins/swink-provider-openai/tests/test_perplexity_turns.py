"""Perplexity's Agent API: requests with supported fields only, kept tool results."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Context,
    ExtensionBlock,
    ImageBlock,
    Message,
    ModelNotFound,
    Notice,
    RetryPolicy,
    StopReason,
    TextBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_test_helpers.two_turns import two_turns
from swink_testing.calls import client_with
from swink_testing.clock import DatedClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SSE = {"Content-Type": "text/event-stream"}
SONAR = "perplexity/perplexity/sonar"
LOOK = Tool("look", "", {"type": "object", "properties": {"at": {"type": "string"}}})
FOUND = {"type": "search_results", "queries": ["tides"],
         "results": [{"id": 1, "title": "Tides", "url": "https://a.example/tides"}]}  # fmt: skip
CALL = {"type": "function_call", "id": "fc_2", "call_id": "call_2", "name": "look",
        "arguments": '{"at": "the quay"}', "status": "completed"}  # fmt: skip
SAID = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "High at noon[1].", "annotations": []}],
        }  # fmt: skip
BEGUN = {"id": "resp_1", "model": "perplexity/sonar", "status": "in_progress", "output": []}
COUNTED = {
    "input_tokens": 3007, "output_tokens": 37, "total_tokens": 3044,
    "input_tokens_details": {"cached_tokens": 3004},
    "cost": {"currency": "USD", "total_cost": 0.00105},
    "tool_calls_details": {"search_web": {"invocation": 1}},
}  # fmt: skip


def frames(*frames: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames)


def answer(*items: dict[str, Any], ended: str = "completed", **facts: Any) -> bytes:
    """Return an answer of the service: a search starts as a call of its internal function."""
    search = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "search_web"}
    told: list[dict[str, Any]] = []
    for index, item in enumerate(items):
        first = {**search, "arguments": "{}"} if item is FOUND else {**item, "content": None}
        told.append({"type": "response.output_item.added", "output_index": index, "item": first})
        if item is FOUND:
            told.append({"type": "response.reasoning.search_results", "thought": "Found 1"})
        if item is SAID:
            told += [{"type": "response.output_text.delta", "output_index": index, "delta": piece}
                     for piece in ("High at ", "noon[1].")]  # fmt: skip
        told.append({"type": "response.output_item.done", "output_index": index, "item": item})
    last = {**BEGUN, "status": ended, "usage": COUNTED, **facts}
    return frames({"type": "response.created", "response": BEGUN}, *told,
                  {"type": f"response.{ended}", "response": last})  # fmt: skip


async def body_of(context: Context | str, model: str = SONAR, **options: Any) -> dict[str, Any]:
    http = MemoryHTTPClient(
        MemoryResponse([answer(SAID)], headers={"Content-Type": "text/event-stream"})
    )
    async with client_with(http=http, api_key="k", retry=RetryPolicy.none()) as client:
        await client.complete(model, context, **options)
    assert http.requests[0].url == "https://api.perplexity.ai/v1/responses"
    return dict(http.bodies[0])


async def test_what_was_found_is_kept_and_words_calls_and_results_go_back() -> None:
    message, body = await two_turns(SONAR, answer(FOUND, SAID, CALL))

    found, text, call = message.content
    assert found == ExtensionBlock("perplexity", "search_results", FOUND)
    assert isinstance(text, TextBlock)
    assert text.text == "High at noon[1]."
    assert isinstance(call, ToolCallBlock)
    assert (call.name, call.arguments) == ("look", {"at": "the quay"})
    assert message.stop_reason is StopReason.TOOL_USE
    assert body["input"] == [
        {"type": "message", "role": "user", "content": "Hello"},
        {"type": "message", "role": "assistant", "content": "High at noon[1]."},
        {"type": "function_call", "call_id": "call_2", "name": "look",
         "arguments": '{"at": "the quay"}'},
        {"type": "function_call_output", "call_id": "call_2", "output": "done"},
        {"type": "message", "role": "user", "content": "Go on."},
    ]  # fmt: skip


async def test_an_answer_costs_what_the_service_says() -> None:
    message, _ = await two_turns(SONAR, answer(FOUND, SAID))

    assert message.usage is not None
    assert message.cost is not None
    assert (message.usage.input, message.usage.output, message.usage.cache_read) == (3007, 37, 3004)
    assert message.usage.extra["tool_calls_details.search_web"] == {"invocation": 1}
    assert message.cost.total == 0.00105


async def test_no_field_is_sent_that_the_api_does_not_know() -> None:
    picture = ImageBlock(UrlSource("https://a.example/a.png"))
    body = await body_of(
        Context(
            [UserMessage([TextBlock("Look."), picture])], tools=[LOOK], system_prompt="Be brief."
        ),
        "perplexity/openai/gpt-6-sol",
        thinking="high",
        max_tokens=64,
        temperature=0.5,
        tool_choice="required",
        response_format={"type": "object"},
        extra={"tools": [{"type": "web_search"}], "max_steps": 3},
    )

    function = {"type": "function", "name": "look", "parameters": LOOK.parameters, "strict": False}
    assert body == {
        "model": "openai/gpt-6-sol",
        "instructions": "Be brief.",
        "input": [{"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "Look."},
            {"type": "input_image", "image_url": "https://a.example/a.png"},
        ]}],
        "tools": [function, {"type": "web_search"}],
        "tool_choice": "required",
        "reasoning": {"effort": "high"},
        "max_output_tokens": 64,
        "temperature": 0.5,
        "max_steps": 3,
        "response_format": {
            "type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}},
        },
        "store": False,
        "stream": True,
    }  # fmt: skip


async def test_a_tool_is_chosen_by_its_name_alone_and_a_callers_own_item_goes_out_as_it_is() -> (
    None
):
    own = ExtensionBlock("perplexity", "item", {"type": "new_item", "text": "x"})
    context = Context([UserMessage([own, TextBlock("Hi")])], tools=[LOOK])
    body = await body_of(context, tool_choice="look")

    assert body["tool_choice"] == {"name": "look"}
    assert body["input"] == [
        {"type": "new_item", "text": "x"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    ]


async def test_what_the_api_has_no_field_for_is_left_out_and_told() -> None:
    http = MemoryHTTPClient(MemoryResponse([answer(SAID)], headers=SSE))
    async with client_with(http=http, api_key="k") as client:
        stream = client.stream(SONAR, "Hi", seed=1, top_k=5, presence_penalty=0.5, user="u")
        told = [event.detail for event in [e async for e in stream] if isinstance(event, Notice)]

    assert {"seed", "top_k", "presence_penalty", "user"}.isdisjoint(http.bodies[0])
    assert len([detail for detail in told if "does not support" in detail]) == 4


async def test_what_the_service_keeps_is_not_said_again() -> None:
    said = AssistantMessage([TextBlock("a")], "perplexity", "perplexity/sonar", "resp_1")
    body = await body_of(
        Context([UserMessage("Hi"), said, UserMessage("Go on.")]),
        extra={"previous_response_id": "resp_1"},
    )

    assert body["previous_response_id"] == "resp_1"
    assert body["input"] == [{"type": "message", "role": "user", "content": "Go on."}]


@pytest.mark.parametrize("ended", ["failed", "cancelled"])
async def test_an_answer_that_the_service_gave_up_is_an_error(ended: str) -> None:
    told = answer(SAID, ended=ended, error={"message": "no more credit", "type": "forbidden"})
    http = MemoryHTTPClient(MemoryResponse([told], headers=SSE))
    async with client_with(http=http, api_key="k", retry=RetryPolicy.none()) as client:
        events = [event async for event in client.stream(SONAR, "Hi")]

    assert events[-1].type == "error"
    assert "no more credit" in events[-1].error_message


async def test_media_in_the_result_of_a_tool_are_shown_by_the_user_after_it() -> None:
    picture = ImageBlock(UrlSource("https://a.example/a.png"))
    turns: list[Message] = [
        UserMessage("Hi"), AssistantMessage([ToolCallBlock("call_2", "look", {})]),
        ToolResultMessage("call_2", "look", [TextBlock("seen"), picture]),
    ]  # fmt: skip
    http = MemoryHTTPClient(MemoryResponse.of_json({"error": {"message": "enough"}}, 400))
    async with client_with(http=http, api_key="k") as client:
        model = "perplexity/openai/gpt-6-sol"
        events = [event async for event in client.stream(model, Context(turns), retry=False)]

    assert events[-1].type == "error"
    *_, result, shown = json.loads(http.requests[0].body)["input"]
    assert result == {"type": "function_call_output", "call_id": "call_2", "output": "seen"}
    part = {"type": "input_image", "image_url": "https://a.example/a.png"}
    assert shown == {"type": "message", "role": "user", "content": [part]}


@pytest.mark.parametrize("model", ["sonar", "sonar-pro", "sonar-reasoning-pro"])
async def test_who_names_a_sonar_of_chat_completions_is_told_its_successor(model: str) -> None:
    today = DatedClock(datetime(2026, 11, 22, tzinfo=UTC))
    async with client_with(http=MemoryHTTPClient(), api_key="k", clock=today) as client:
        with pytest.raises(ModelNotFound, match="perplexity/perplexity/sonar"):
            await client.complete(f"perplexity/{model}", "Hi")

"""Requests to Mistral, and messages from its recorded answers."""

from __future__ import annotations

import json
from typing import Any

import pytest

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_core.failures.classification import classify_default
from swink_provider_mistral import MistralProvider
from swink_provider_mistral.provider import TOOL_ID, tool_id
from swink_test_helpers.capture import CaptureServer
from swink_test_helpers.recorded_chat import RecordedChat
from swink_testing.calls import client_with
from swink_testing.driver import (
    MemoryHTTPClient,
    MemoryResponse,
)

PROVIDER = MistralProvider("mistral")
MODEL = swink.Model("mistral", "mistral-medium-latest")
DONE = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'


async def body_of(
    conversation: str | swink.Context | list[swink.Message], **options: Any
) -> dict[str, Any]:
    http = MemoryHTTPClient(MemoryResponse([DONE]))
    async with client_with(http=http, api_key="test") as client:
        await client.complete(str(MODEL), conversation, **options)
    body: dict[str, Any] = http.bodies[0]
    return body


OPTIONS = [
    ("the_seed_has_a_name_of_its_own", {"seed": 7}, {"random_seed": 7}),
    ("a_required_call_is_any", {"tool_choice": "required"}, {"tool_choice": "any"}),
    ("max_tokens_keeps_its_old_name", {"max_tokens": 5}, {"max_tokens": 5}),
    ("extra_fields_go_as_they_are", {"extra": {"safe_prompt": True}}, {"safe_prompt": True}),
    ("stop", {"stop": ["a", "b"]}, {"stop": ["a", "b"]}),
    ("top_k", {"top_k": 5}, {"top_k": 5}),
    ("a_session_is_a_key_of_the_cache", {"session_id": "s-1"}, {"prompt_cache_key": "s-1"}),
]


@pytest.mark.parametrize(
    ("options", "expected"), [row[1:] for row in OPTIONS], ids=[row[0] for row in OPTIONS]
)
async def test_options(options: dict[str, Any], expected: dict[str, Any]) -> None:
    tools = [swink.Tool("f")] if "tool_choice" in options else None
    body = await body_of("Hi", tools=tools, **options)
    assert {name: body.get(name) for name in expected} == expected
    assert "seed" not in body
    assert "stream_options" not in body


async def test_a_tool_may_be_strict_and_a_prompt_is_kept_as_long_as_mistral_does() -> None:
    tools = [swink.Tool("f", strict=True)]
    body = await body_of("Hi", tools=tools, cache=swink.CacheStrategy(ttl=86400))
    assert body["tools"][0]["function"]["strict"] is True
    assert not {"prompt_cache_retention", "prompt_cache_options"} & body.keys()


async def test_we_send_what_mistrals_sdk_sends() -> None:
    sdk = pytest.importorskip("mistralai.client", reason="Mistral's SDK is not installed")
    weather = {"type": "object", "properties": {"city": {"type": "string"}}}
    asked = {
        "max_tokens": 90, "temperature": 0.2, "top_p": 0.5, "top_k": 5, "random_seed": 7,
        "stop": ["END"], "tool_choice": "any", "parallel_tool_calls": False,
        "prompt_cache_key": "s-1",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        "tools": [{"type": "function", "function": {
            "name": "weather", "description": "Tells it.", "parameters": weather, "strict": True}}],
    }  # fmt: skip
    with CaptureServer(DONE) as server:
        with (
            sdk.Mistral("k", server_url=server.url) as client,
            client.chat.stream(model=MODEL.id, **asked),
        ):
            pass
        theirs = server.exchanges[0].json

    ours = await body_of(
        swink.Context([swink.UserMessage("Hi")], "Be brief.",
                      [swink.Tool("weather", "Tells it.", weather, strict=True)]),
        max_tokens=90, temperature=0.2, top_p=0.5, top_k=5, seed=7, stop="END",
        tool_choice="required", parallel_tool_calls=False, session_id="s-1",
    )  # fmt: skip
    assert ours == theirs


async def test_an_answer_to_be_continued_is_marked_as_one() -> None:
    answer = swink.AssistantMessage([swink.TextBlock("One, ")])
    body = await body_of([swink.UserMessage("Count."), answer])
    assert body["messages"][-1] == {"role": "assistant", "content": "One, ", "prefix": True}


IDS = [
    "call_abc", "call_cCPjAyfwTzboEKjVlqFrArNF", "swink_call_0_1", "", "ünïcode", "abcdefgh_",
    "lone_surrogate_\ud83d",
]  # fmt: skip


def test_ids_are_nine_letters_and_digits_always_the_same_and_all_different() -> None:
    mapped = [tool_id(given) for given in IDS]
    assert all(TOOL_ID.fullmatch(one) for one in mapped)
    assert len(set(mapped)) == len(IDS)
    assert mapped == [tool_id(given) for given in IDS]
    assert tool_id("D681PevKs") == "D681PevKs"


async def test_call_and_result_keep_the_same_id_and_an_assistant_turn_follows_results() -> None:
    call = swink.ToolCallBlock("call_from_elsewhere", "f", {"a": 1}, '{"a": 1}')
    body = await body_of(
        [
            swink.UserMessage("a"),
            swink.AssistantMessage([call], provider="acme"),
            swink.ToolResultMessage("call_from_elsewhere", "f", "42"),
            swink.UserMessage("and now?"),
        ]
    )
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    sent = body["messages"][1]["tool_calls"][0]
    assert sent["id"] == body["messages"][2]["tool_call_id"] == tool_id("call_from_elsewhere")
    assert sent["function"]["arguments"] == '{"a": 1}'


async def test_reasoning_goes_back_as_a_chunk_before_the_text() -> None:
    answer = swink.AssistantMessage(
        [swink.ThinkingBlock("hm"), swink.TextBlock("Hi")], provider="mistral"
    )
    body = await body_of([swink.UserMessage("a"), answer, swink.UserMessage("b")])
    assert body["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "text", "text": "Hi"},
        ],
    }


async def test_an_uploaded_document_is_named_by_its_id() -> None:
    source = swink.FileIdSource("mistral", "file-1")
    message = swink.UserMessage([swink.DocumentBlock(source), swink.TextBlock("Sum up")])
    body = await body_of([message])
    assert body["messages"][0]["content"][0] == {"type": "file", "file_id": "file-1"}


def test_audio_is_the_data_alone() -> None:
    sound = swink.AudioBlock(swink.Base64Source("audio/wav", "UklGRg=="))
    context = swink.Context([swink.UserMessage([sound])])
    native = PROVIDER.convert(swink.Model("mistral", "voxtral"), context, swink.StreamOptions())
    assert native["messages"][0]["content"] == [{"type": "input_audio", "input_audio": "UklGRg=="}]


async def test_a_document_is_an_address() -> None:
    source = swink.UrlSource("https://a.example/b.pdf", "application/pdf")
    message = swink.UserMessage([swink.DocumentBlock(source, "b.pdf"), swink.TextBlock("Sum up")])
    body = await body_of([message])
    assert body["messages"][0]["content"][0] == {
        "type": "document_url",
        "document_url": "https://a.example/b.pdf",
        "document_name": "b.pdf",
    }


class TestRecorded(RecordedChat):
    folder = "mistral"
    provider = PROVIDER


CAPACITY = {
    "object": "error",
    "message": "Service tier capacity exceeded for this model.",
    "type": "service_tier_capacity_exceeded",
    "code": "3505",
}
TOO_LONG = {
    "object": "error",
    "message": "Prompt contains 9 tokens, too large for model with 8 maximum context length",
    "type": "invalid_request_prompt",
    "code": "3051",
}


# the same code as that of a prompt that is too long: it says no more than that something is wrong
BAD_ARGUMENT = {
    "object": "error",
    "message": "Logprobs are not enabled for this model",
    "type": "invalid_request_invalid_args",
    "code": "3051",
}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (429, CAPACITY, Kind.OVERLOADED),
        (400, TOO_LONG, Kind.CONTEXT_WINDOW_EXCEEDED),
        (400, BAD_ARGUMENT, Kind.INVALID_REQUEST),
    ],
)
def test_own_codes(status: int, body: dict[str, Any], kind: Kind) -> None:
    failure = swink.Failure("request", status, body=json.dumps(body).encode())
    PROVIDER.error_facts(failure)
    meaning = PROVIDER.classify(failure) or classify_default(failure)
    assert meaning.kind is kind

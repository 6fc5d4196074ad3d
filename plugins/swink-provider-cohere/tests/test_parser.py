"""The events of `/v2/chat`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Failure,
    StopReason,
    StreamErrorKind,
    TextBlock,
    ThinkingBlock,
    Usage,
)
from swink_provider_cohere import CohereProvider
from swink_test_helpers.two_turns import two_turns
from swink_testing.driver import fold, run_bytes

PROVIDER = CohereProvider("cohere")
CITED = {"start": 0, "end": 2, "text": "At", "sources": [{"type": "document", "id": "doc:0"}]}


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def delta(index: int = 0, **content: Any) -> dict[str, Any]:
    return {"type": "content-delta", "index": index, "delta": {"message": {"content": content}}}


def cite(citation: dict[str, Any]) -> dict[str, Any]:
    return {"type": "citation-start", "index": 0, "delta": {"message": {"citations": citation}}}


def end(reason: str | None = "COMPLETE", **more: Any) -> dict[str, Any]:
    return {"type": "message-end", "delta": {"finish_reason": reason, **more}}


def read(*events: dict[str, Any]) -> AssistantMessage:
    return fold(run_bytes(PROVIDER, "any", [sse(*events)]))


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("COMPLETE", StopReason.STOP),
        ("STOP_SEQUENCE", StopReason.STOP),
        ("MAX_TOKENS", StopReason.LENGTH),
        ("TOOL_CALL", StopReason.TOOL_USE),
        ("SOMETHING_NEW", StopReason.STOP),
    ],
)
def test_every_reason_to_finish_is_one_of_ours(word: str, reason: StopReason) -> None:
    assert read(delta(text="Hi"), end(word)).stop_reason is reason


@pytest.mark.parametrize("word", ["ERROR", "TIMEOUT"])
def test_an_answer_that_ended_in_an_error_is_one(word: str) -> None:
    message = read(delta(text="Hi"), end(word))
    assert message.error_kind is StreamErrorKind.NETWORK
    assert message.text == "Hi"


def test_nothing_after_the_end_is_read() -> None:
    assert fold(
        run_bytes(PROVIDER, "any", [sse(delta(text="Hi"), end()) + b"data: [DONE]\n\n"])
    ).text


def test_a_stream_without_its_end_is_a_failure() -> None:
    assert read(delta(text="Hi")).error_kind is StreamErrorKind.NETWORK


def test_citations_are_with_the_block_that_they_are_about() -> None:
    message = read(delta(thinking="Hm"), delta(1, text="At 14:20."), cite(CITED), end())
    assert message.content == [
        ThinkingBlock("Hm"), TextBlock("At 14:20.", {"citations": [CITED]}),
    ]  # fmt: skip


def test_citations_of_a_plan_are_with_the_plan() -> None:
    plan = {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": "I look."}}}
    message = read(plan, cite({**CITED, "type": "PLAN"}), end())
    (block,) = message.content
    assert block == ThinkingBlock(
        "I look.", metadata={"tool_plan": True, "citations": [{**CITED, "type": "PLAN"}]}
    )


def test_what_is_counted_and_what_is_billed_are_told_apart() -> None:
    usage = {
        "billed_units": {"input_tokens": 31, "output_tokens": 7},
        "tokens": {"input_tokens": 245.0, "output_tokens": 9},
        "cached_tokens": 144,
    }
    extra = {"billed_input": 31, "billed_output": 7, "cached_tokens": 144}
    message = read(delta(text="Hi"), end(usage=usage))
    assert message.usage == Usage(245, 9, total=254, extra=extra, reported=True)


async def test_log_probabilities_are_with_their_text() -> None:
    token = {"text": "Hi", "token_ids": [1], "logprobs": [-0.1]}
    message, _ = await two_turns("cohere/any", sse({**delta(text="Hi"), "logprobs": token}, end()))
    assert message.content == [TextBlock("Hi", {"logprobs": [token]})]


WHOLE = {
    "id": "1",
    "finish_reason": "TOOL_CALL",
    "message": {
        "role": "assistant",
        "tool_plan": "I look.",
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "function", "function": {"name": "g", "arguments": '{"x":1}'}},
        ],
    },
    "usage": {"tokens": {"input_tokens": 3, "output_tokens": 2}},
}


async def test_a_whole_answer_says_the_same() -> None:
    body = json.dumps(WHOLE).encode()
    message, _ = await two_turns("cohere/any", body, "application/json", transport="buffered")
    assert message.thinking == "I look."
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        ("a", "f", {}), ("b", "g", {"x": 1}),
    ]  # fmt: skip
    assert message.stop_reason is StopReason.TOOL_USE


OVERFLOW = "too many tokens: size limit exceeded by 11326 tokens."
TOO_MUCH = (
    "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this "
    "model - received 8192."
)
TRIAL = "You are using a Trial key, which is limited to 1000 API calls / month."

ERRORS = [
    (400, OVERFLOW, StreamErrorKind.CONTEXT_WINDOW_EXCEEDED),
    (400, TOO_MUCH, StreamErrorKind.INVALID_REQUEST),
    (402, "Please add or update your payment method", StreamErrorKind.QUOTA_EXHAUSTED),
    (429, TRIAL, StreamErrorKind.QUOTA_EXHAUSTED),
    (498, "invalid api token", StreamErrorKind.AUTH),
]


@pytest.mark.parametrize(("status", "message", "kind"), ERRORS)
def test_errors_go_by_wording_and_status(status: int, message: str, kind: StreamErrorKind) -> None:
    found = PROVIDER.classify(Failure("request", status=status, message=message))
    assert found is not None
    assert found.kind is kind


def test_a_usual_status_is_left_to_the_core() -> None:
    failure = Failure("request", status=429, message="limited to 20 API calls / minute")
    assert PROVIDER.classify(failure) is None

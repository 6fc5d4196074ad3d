"""Content other than text is kept through two turns and returns to the API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Client,
    ExtensionBlock,
    Model,
    ModelInfo,
    Notice,
    RetryPolicy,
    StreamErrorKind,
    TextBlock,
    ThinkingBlock,
)
from swink_provider_openai import OpenAIProvider
from swink_test_helpers.two_turns import two_turns
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, fold, run_bytes

RESPONDING = Model("openai", "any", ModelInfo("any", api="responses"))
CHAT: dict[str, Any] = {"settings": {"api": "chat"}}
RESPONSES: dict[str, Any] = {"settings": {"api": "responses"}}
FOR_EVER, LONG_AGO = 9_999_999_999, 1


def frames(*data: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(item).encode() for item in data)


def chunk(delta: dict[str, Any], finish: str | None = None, **choice: Any) -> dict[str, Any]:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish, **choice}]
    return {"id": "r1", "model": "m1", "choices": choices}


def spoken(until: int) -> bytes:
    return frames(
        chunk({"role": "assistant", "audio": {"id": "audio_1", "transcript": "Good "}}),
        chunk({"audio": {"transcript": "morning"}}),
        chunk({"audio": {"data": "AAAA"}}),
        chunk({"audio": {"data": "BBBB"}}),
        chunk({"audio": {"expires_at": until}}),
        chunk({}, "stop"),
    )


async def test_sound_is_kept_whole_and_goes_back_by_its_id() -> None:
    message, body = await two_turns("openai/gpt-audio", spoken(FOR_EVER), **CHAT)

    sound = {"id": "audio_1", "expires_at": FOR_EVER, "data": "AAAABBBB"}
    assert message.content == [
        TextBlock("Good morning"),
        ExtensionBlock("openai", "audio", sound),
    ]
    assert body["messages"][1] == {
        "role": "assistant",
        "content": None,
        "audio": {"id": "audio_1"},
    }


async def test_of_sound_that_the_service_keeps_no_longer_the_words_go_back() -> None:
    _, body = await two_turns("openai/gpt-audio", spoken(LONG_AGO), **CHAT)

    assert body["messages"][1] == {"role": "assistant", "content": "Good morning"}


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}, "index": 0}


@pytest.mark.parametrize("words", ["", "Here it is."])
async def test_pictures_are_an_answer_and_go_back(words: str) -> None:
    answer = frames(chunk({"content": words, "images": [IMAGE]}), chunk({}, "stop"))

    message, body = await two_turns("openrouter/google/gemini-2.5-flash-image", answer)

    said = [TextBlock(words)] if words else []
    assert message.content == [*said, ExtensionBlock("openrouter", "image", IMAGE)]
    assert body["messages"][1]["images"] == [IMAGE]


def token(text: str, kind: str = "content") -> dict[str, Any]:
    return {kind: [{"token": text, "logprob": -0.5, "bytes": [1], "top_logprobs": []}]}


async def test_log_probabilities_are_with_their_block() -> None:
    answer = frames(
        chunk({"reasoning_content": "Hm"}, logprobs=token("Hm", "reasoning_content")),
        chunk({"content": "Good "}, logprobs=token("Good ")),
        chunk({"content": "day"}, logprobs=token("day")),
        chunk({}, "stop"),
    )

    message, _ = await two_turns("openai/gpt-4o", answer, **CHAT)

    reasons = {"logprobs": token("Hm", "reasoning_content")}
    both = [*token("Good ")["content"], *token("day")["content"]]
    assert message.content == [
        ThinkingBlock("Hm", metadata=reasons),
        TextBlock("Good day", {"logprobs": {"content": both}}),
    ]


async def test_log_probabilities_of_an_answer_without_text_are_the_message_s() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}
    answer = frames(chunk({"tool_calls": [call]}, logprobs=token("f")), chunk({}, "tool_calls"))

    message, _ = await two_turns("openai/gpt-4o", answer, **CHAT)

    assert message.metadata == {"logprobs": token("f")}


HATE = {"hate": {"filtered": False, "severity": "low"}}
SAFE = {"hate": {"filtered": False, "severity": "safe"}}

FACTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("OpenAI", {"service_tier": "flex", "system_fingerprint": "fp_1"}, {}),
    ("a service tier as an object", {"service_tier": {"type": "flex"}}, {}),
    ("OpenAI's moderation", {"moderation": {"input": {"flagged": False}}}, {}),
    ("OpenRouter", {"provider": "Meta"}, {}),
    ("Perplexity", {"images": [{"image_url": "a"}], "related_questions": ["Why?"]}, {}),
    ("llama.cpp", {"timings": {"prompt_ms": 8.9}}, {}),
    ("Groq", {"x_groq": {"id": "req_1"}}, {"x_groq": {"seed": 3}}),
    ("Azure", {"prompt_filter_results": [{"prompt_index": 0}]}, {}),
]


@pytest.mark.parametrize(("name", "first", "last"), FACTS, ids=[name for name, *_ in FACTS])
@pytest.mark.parametrize("where", ["in the first frame", "in the last frame"])
async def test_facts_of_the_answer_are_the_message_s(
    name: str, first: dict[str, Any], last: dict[str, Any], where: str
) -> None:
    begin, end = chunk({"content": "Hi"}), {"choices": [], **last}
    (begin if where == "in the first frame" else chunk({})).update(first)
    if where == "in the last frame":
        end |= first
    told = frames(begin, chunk({"content": "!"}), chunk({}, "stop"), end) + b"data: [DONE]\n\n"

    message, _ = await two_turns("openai/gpt-4o", told, **CHAT)

    both_from_groq = where == "in the first frame" and last
    expected = {"x_groq": {"id": "req_1", "seed": 3}} if both_from_groq else first
    assert message.metadata == expected


async def test_what_a_filter_found_in_any_piece_is_kept() -> None:
    answer = frames(
        chunk({"content": "a"}, content_filter_results=SAFE),
        chunk({"content": "b"}, content_filter_results=HATE),
        chunk({"content": "c"}, content_filter_results=SAFE),
        chunk({}, "stop", content_filter_results={}),
    )

    message, _ = await two_turns("openai/gpt-4o", answer, **CHAT)

    assert message.metadata == {"content_filter_results": [SAFE, HATE]}


async def test_the_sequence_that_stopped_vllm_is_kept() -> None:
    answer = frames(chunk({"content": "one"}), chunk({}, "stop", stop_reason="two"))

    message, _ = await two_turns("openai/gpt-4o", answer, **CHAT)

    assert message.metadata == {"stop_sequence": "two"}


async def test_free_text_for_a_tool_goes_back_as_it_came() -> None:
    call = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "sh", "input": "ls"}}

    message, body = await two_turns(
        "openai/gpt-5", frames(chunk({"tool_calls": [call]}), chunk({}, "tool_calls")), **CHAT
    )

    assert message.tool_calls[0].arguments == {"input": "ls"}
    [back] = body["messages"][1]["tool_calls"]
    assert back == {name: call[name] for name in ("id", "type", "custom")}


async def test_an_answer_that_is_not_streamed_keeps_the_same() -> None:
    audio = {"id": "audio_1", "data": "AAAA", "expires_at": FOR_EVER, "transcript": "Good day"}
    choice = {"message": {"audio": audio}, "finish_reason": "stop", "logprobs": token("Good day")}
    answer = {"id": "r1", "service_tier": "flex", "choices": [choice]}

    message, _ = await two_turns(
        "openai/gpt-audio", json.dumps(answer).encode(), "application/json", **CHAT,
        transport="buffered",
    )  # fmt: skip

    sound = {"id": "audio_1", "expires_at": FOR_EVER, "data": "AAAA"}
    said = TextBlock("Good day", {"logprobs": token("Good day")})
    assert message.content == [said, ExtensionBlock("openai", "audio", sound)]
    assert message.metadata == {"service_tier": "flex"}


# -- Responses -------------------------------------------------------------------------------


def completed(**response: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"status": "completed", **response}}


def delta(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "delta": text}


def whole(text: str, **part: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, **part}]
    item = {"type": "message", "id": "msg_1", "content": content}
    return {"type": "response.output_item.done", "output_index": 0, "item": item}


async def test_responses_keep_facts_and_log_probabilities() -> None:
    logprobs = [{"token": "Hi", "logprob": -0.5}]
    facts = {"service_tier": "flex", "moderation": {"output": {"flagged": False}}}
    answer = frames(delta("Hi"), whole("Hi", logprobs=logprobs), completed(**facts))

    message, body = await two_turns("openai/gpt-5", answer, **RESPONSES)

    assert message.metadata == facts
    assert message.content == [TextBlock("Hi", {"item": {"id": "msg_1"}, "logprobs": logprobs})]
    [part] = body["input"][1]["content"]
    assert part == {"type": "output_text", "text": "Hi", "annotations": []}


CONTRADICTIONS = [
    ("another text", "Good bye", True),
    ("a shorter text", "Good", True),
    ("the same text", "Good day", False),
    ("more of it", "Good day!", False),
    ("nothing", "", False),
]


@pytest.mark.parametrize(("name", "text", "told"), CONTRADICTIONS)
def test_a_whole_text_that_contradicts_its_pieces_is_told(name: str, text: str, told: bool) -> None:
    done = {"type": "response.output_text.done", "output_index": 0, "text": text}
    provider = OpenAIProvider("openai")
    answer = frames(delta("Good "), delta("day"), done, done, completed())

    events = run_bytes(provider, RESPONDING, [answer])

    codes = [event.code for event in events if isinstance(event, Notice)]
    assert codes == (["contradiction"] if told else [])
    message: AssistantMessage = fold(events)
    assert message.text == ("Good day!" if name == "more of it" else "Good day")


@pytest.mark.parametrize(
    "piece",
    [
        {"delta": {"audio": {"id": "audio_1", "data": "A" * 1000}}},
        {"delta": {"content": "a"}, "logprobs": {"content": [{"token": "a" * 1000}]}},
    ],
    ids=["sound", "log probabilities"],
)
async def test_what_is_held_back_counts_before_it_is_said(piece: dict[str, Any]) -> None:
    frame = b"data: " + json.dumps({"choices": [piece]}).encode() + b"\n\n"
    http = MemoryHTTPClient(
        MemoryResponse([frame] * 100, headers={"Content-Type": "text/event-stream"})
    )
    async with Client(http=http, retry=RetryPolicy.none()) as client:
        given = {"api_key": "test", "max_output_chars": 10_000}
        stream = client.stream("openai/any", "Hi", settings={"api": "chat"}, **given)
        events = [event async for event in stream]
    assert events[-1].error_kind is StreamErrorKind.OUTPUT_TOO_LARGE
    assert stream.call.attempt.reads < 20

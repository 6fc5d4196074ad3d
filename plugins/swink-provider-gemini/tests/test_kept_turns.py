"""Content other than text is kept through two turns and returns to the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from generate_content import body, call, text, thought
from generate_content import frame as frame_of

from swink_core import (
    Client,
    Error,
    ExtensionBlock,
    StreamErrorKind,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from swink_test_helpers.two_turns import two_turns
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SETTINGS: dict[str, dict[str, Any]] = {"gemini": {}, "vertex": {"project": "p"}}
RATINGS = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}]


def chosen(text: str) -> dict[str, Any]:
    return {
        "chosenCandidates": [{"token": text, "logProbability": -0.5}],
        "topCandidates": [{"candidates": [{"token": text, "logProbability": -0.5}]}],
    }


def frame(text: str, finish: str | None = None, **candidate: Any) -> bytes:
    content = {"role": "model", "parts": [{"text": text}]}
    data = {"candidates": [{"content": content, "finishReason": finish, **candidate}]}
    return b"data: %s\r\n\r\n" % json.dumps(data).encode()


async def test_ratings_and_log_probabilities_are_kept_and_do_not_go_back() -> None:
    answer = frame("Good ", logprobsResult=chosen("Good "), safetyRatings=RATINGS)
    answer += frame("day", "STOP", logprobsResult=chosen("day"), avgLogprobs=-0.5)
    rated = {"promptFeedback": {"safetyRatings": RATINGS}}

    message, body = await two_turns(
        "gemini/gemini-3.8-flash", b"data: %s\r\n\r\n" % json.dumps(rated).encode() + answer
    )

    first, second = chosen("Good "), chosen("day")
    both = {name: first[name] + second[name] for name in first}
    assert message.content == [TextBlock("Good day", {"logprobsResult": both})]
    assert message.metadata == {"safetyRatings": RATINGS, "avgLogprobs": -0.5, **rated}
    assert body["contents"][1]["parts"] == [{"text": "Good day"}]


async def test_log_probabilities_count_towards_the_size_of_an_answer_as_they_arrive() -> None:
    frames = [frame("a", logprobsResult=chosen("a")) for _ in range(20)]
    http = MemoryHTTPClient(MemoryResponse(frames))
    async with Client(http=http, max_output_chars=1_000) as client:
        stream = client.stream("gemini/gemini-3.8-flash", "Hi", api_key="key")
        events = [event async for event in stream]
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is StreamErrorKind.OUTPUT_TOO_LARGE


IMAGE = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
CODE = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}}
OUTCOME = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}
GROUNDED = {
    "webSearchQueries": ["tides"],
    "groundingChunks": [{"web": {"uri": "https://a.example"}}],
}


@pytest.mark.parametrize("provider", ["gemini", "vertex"])
async def test_signatures_pictures_code_and_calls_go_back_and_sources_are_kept(
    provider: str,
) -> None:
    parts = [
        thought("Hm."), CODE, OUTCOME, text("Two. "), IMAGE,
        call("look", {"at": "noon"}, id="c1", thoughtSignature="c2ln"),
    ]  # fmt: skip
    answer = body(frame_of(*parts, finish="STOP", groundingMetadata=GROUNDED))

    message, sent = await two_turns(
        f"{provider}/gemini-3.8-flash", answer, settings=SETTINGS[provider]
    )

    assert message.thinking == "Hm."
    *blocks, grounded = message.content
    assert [type(block) for block in blocks] == [
        ThinkingBlock, ExtensionBlock, ExtensionBlock, TextBlock, ExtensionBlock, ToolCallBlock,
    ]  # fmt: skip
    assert isinstance(grounded, TextBlock)
    assert GROUNDED in (grounded.metadata or {}).values()
    back = sent["contents"][1]["parts"]
    assert [part for part in parts if part in back] == parts[1:]


THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
HIDDEN = {"type": "redacted_thinking", "data": "x+/=="}
SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tides"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
CITED = {"type": "char_location", "cited_text": "Hi", "document_index": 0, "document_title": None,
         "start_char_index": 0, "end_char_index": 2}  # fmt: skip
SAID = {"type": "text", "text": "Hi", "citations": [CITED]}
CALLED = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "noon"}}


async def test_what_claude_says_there_goes_back_as_it_came() -> None:
    blocks = [THOUGHT, HIDDEN, SEARCH, FOUND, SAID, CALLED]
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "content": blocks,
             "model": "claude-opus-5-5", "stop_reason": "tool_use",
             "usage": {"input_tokens": 3, "output_tokens": 2}}  # fmt: skip

    message, sent = await two_turns(
        "vertex/claude-opus-5-5", json.dumps(whole).encode(), "application/json",
        settings=SETTINGS["vertex"], transport="buffered",
    )  # fmt: skip

    assert message.thinking == "Hm."
    assert message.tool_calls[0].arguments == {"at": "noon"}
    assert sent["messages"][1]["content"] == blocks
    assert sent["messages"][2]["content"][0]["tool_use_id"] == "t1"

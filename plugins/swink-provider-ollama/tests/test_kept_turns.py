"""Content other than text is kept through two turns and returns to the API."""

from __future__ import annotations

import json
from typing import Any

from swink_core import TextBlock, ThinkingBlock
from swink_test_helpers.two_turns import two_turns


def line(logprobs: list[Any], done: bool = False, **message: str) -> bytes:
    said = {"role": "assistant", "content": "", **message}
    data = {"model": "m", "message": said, "logprobs": logprobs, "done": done}
    return json.dumps(data).encode() + b"\n"


def token(text: str) -> dict[str, Any]:
    return {"token": text, "logprob": -0.5}


async def test_log_probabilities_are_with_their_block() -> None:
    answer = line([token("Hm")], thinking="Hm") + line([token("Good ")], content="Good ")
    answer += line([token("day")], content="day") + line([], done=True)

    message, _ = await two_turns("ollama/m", answer, "application/x-ndjson")

    assert message.content == [
        ThinkingBlock("Hm", metadata={"logprobs": [token("Hm")]}),
        TextBlock("Good day", {"logprobs": [token("Good "), token("day")]}),
    ]


async def test_thoughts_and_calls_go_back() -> None:
    call = {"function": {"name": "look", "arguments": {"at": "noon"}}}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    answer = line([], thinking="Hm.") + line([], content="I look.")
    answer += json.dumps({"model": "m", "message": said, "done": False}).encode() + b"\n"
    answer += line([], done=True)

    message, sent = await two_turns("ollama/qwen3:4b", answer, "application/x-ndjson")

    assert (message.thinking, message.text) == ("Hm.", "I look.")
    _, back, result, _ = sent["messages"]
    assert (back["thinking"], back["content"]) == ("Hm.", "I look.")
    assert back["tool_calls"][0]["function"] == call["function"]
    assert (result["role"], result["content"]) == ("tool", "done")

"""What comes beside the text is kept through two turns, and goes back where the API wants it."""

from __future__ import annotations

import json
from typing import Any

from swink_core import TextBlock, ThinkingBlock
from swink_testing.two_turns import two_turns


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

"""Content other than text is kept through two turns and returns to the API."""

from __future__ import annotations

import json
from typing import Any

from swink_core import TextBlock
from swink_test_helpers.two_turns import two_turns


def frame(content: Any, finish: str | None = None) -> bytes:
    choices = [{"index": 0, "delta": {"content": content}, "finish_reason": finish}]
    return b"data: %s\n\n" % json.dumps({"id": "r", "model": "m", "choices": choices}).encode()


async def test_references_stay_with_the_text_before_them_and_go_back() -> None:
    reference = {"type": "reference", "reference_ids": [3, 1]}
    answer = frame("The tide ")
    answer += frame([{"type": "text", "text": "is high"}, reference])
    answer += frame([{"type": "text", "text": " at noon."}]) + frame("", "stop")

    message, body = await two_turns("mistral/mistral-large-latest", answer)

    assert message.content == [
        TextBlock("The tide is high", {"reference_ids": [3, 1]}),
        TextBlock(" at noon."),
    ]
    assert body["messages"][1]["content"] == [
        {"type": "text", "text": "The tide is high"},
        reference,
        {"type": "text", "text": " at noon."},
    ]

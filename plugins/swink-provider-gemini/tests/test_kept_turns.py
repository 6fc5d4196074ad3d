"""What comes beside the text is kept through two turns, and goes back where the API wants it."""

from __future__ import annotations

import json
from typing import Any

from swink_core import TextBlock
from swink_testing.two_turns import two_turns

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

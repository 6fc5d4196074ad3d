"""What comes beside Perplexity's text is kept through two turns; only words go back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_testing.two_turns import two_turns

FOUND = [{"title": "Tides", "url": "https://a.example/tides", "date": None}]
IMAGES = [{"image_url": "https://a.example/t.png", "origin_url": "https://a.example"}]


def frames(*frames: dict[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(frame).encode() for frame in frames)


@pytest.mark.parametrize("model", ["sonar", "sonar-pro", "sonar-reasoning-pro"])
async def test_sources_are_kept_and_words_go_back_in_turn(model: str) -> None:
    beside = {"citations": [FOUND[0]["url"]], "search_results": FOUND, "images": IMAGES}
    answer = frames(
        {"id": "r", **beside, "choices": [{"delta": {"role": "assistant", "content": "High"}}]},
        {"id": "r", **beside, "choices": [{"delta": {"content": " at noon[1]."},
                                           "finish_reason": "stop"}]},
    )  # fmt: skip

    message, body = await two_turns(f"perplexity/{model}", answer)

    assert message.text == "High at noon[1]."
    kept = json.dumps([message.metadata, [block.metadata for block in message.content
                                          if hasattr(block, "metadata")]])  # fmt: skip
    assert FOUND[0]["url"] in kept
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][1] == {"role": "assistant", "content": "High at noon[1]."}


async def test_thinking_in_tags_is_told_apart_and_stays_here() -> None:
    answer = frames(
        {"choices": [{"delta": {"content": "<think>Hm.</think>High."}, "finish_reason": "stop"}]}
    )

    message, body = await two_turns("perplexity/sonar-reasoning-pro", answer)

    assert (message.thinking, message.text) == ("Hm.", "High.")
    assert body["messages"][1] == {"role": "assistant", "content": "High."}


async def test_where_to_stop_and_how_many_words_to_choose_from_are_sent() -> None:
    answer = frames({"choices": [{"delta": {"content": "High."}, "finish_reason": "stop"}]})

    _, body = await two_turns("perplexity/sonar", answer, stop="END", top_k=5)

    assert (body["stop"], body["top_k"]) == (["END"], 5)

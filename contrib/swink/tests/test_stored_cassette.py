"""A cassette of an earlier version is converted and replayed, to the same calls.

Commit 390bb376 wrote `stored/cassette.json`, when messages and events were classes of attrs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import swink
from swink_recorder.cassette import Cassette
from swink_recorder.convert import convert

CASSETTE = Path(__file__).parent / "stored" / "cassette.json"

WEATHER = swink.Tool(
    "weather",
    "Tell the weather.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)

PIXELS = swink.Base64Source("image/png", "iVBORw0KGgo=")

CONVERSATION = [
    swink.UserMessage([swink.TextBlock("What is the weather in Oslo?"), swink.ImageBlock(PIXELS)]),
    swink.AssistantMessage([swink.ToolCallBlock("t1", "weather", {"city": "Oslo"})]),
    swink.ToolResultMessage("t1", "weather", "rain"),
]

GIVEN: dict[str, Any] = {
    "base_url": "http://nowhere.invalid/v1",
    "api_key": "key-0123456789",
    "retry": False,
    "tools": [WEATHER],
    "max_tokens": 100,
}


async def test_every_take_of_an_earlier_version_is_converted_and_replayed(tmp_path: Path) -> None:
    path = tmp_path / "cassette.json"
    path.write_bytes(CASSETTE.read_bytes())
    assert [*convert(path)] == [str(path)]
    with Cassette(path, "none") as cassette:
        async with swink.Client() as client:
            chat = await client.complete(
                "openai/gpt-5.4-mini",
                CONVERSATION,
                system_prompt="Be brief.",
                temperature=0.2,
                settings={"api": "chat"},
                **GIVEN,
            )
            claude = await client.complete(
                "anthropic/claude-haiku-4-5", "What is the weather in Oslo?", **GIVEN
            )
            echoed = await client.complete("echo/echo", "Why is the sky blue?")
            with pytest.raises(swink.AuthenticationError, match="to fail: auth"):
                await client.complete("echo/fail-auth", "Hi", retry=False)
    assert cassette.unrecorded == []
    assert len(json.loads(path.read_bytes())["attempts"]) == 4
    assert (chat.text, chat.stop_reason) == ("It rains.", "stop")
    assert chat.usage == swink.Usage(20, 3, total=23, reported=True)
    [call] = claude.tool_calls
    assert (call.name, call.arguments) == ("weather", {"city": "Oslo"})
    assert (echoed.text, echoed.response_id) == ("Why is the sky blue?", "echo-f628a194")

"""The name of a user reaches the APIs that have a field for it; elsewhere a notice has its path."""

from __future__ import annotations

from typing import Any

import pytest

import swink_core as swink
from swink_core import Message, Notice, TextBlock, UserMessage
from swink_recorder.loopback import Exchange, LoopbackServer

NAMED: list[tuple[str, dict[str, Any]]] = [
    ("openai/gpt-4.1", {"settings": {"api": "chat"}}),
    ("groq/llama-3.3-70b-versatile", {}),
    ("deepseek/deepseek-chat", {}),
    ("openrouter/openai/gpt-5.4", {}),
    ("cerebras/gpt-oss-120b", {}),
    ("vllm/any", {"settings": {"api": "chat"}}),
]

NAMELESS: list[tuple[str, dict[str, Any]]] = [
    ("openai/gpt-5.4", {"settings": {"api": "responses"}}),
    ("anthropic/claude-opus-4-8", {}),
    ("mistral/mistral-large-latest", {}),
    ("gemini/gemini-3.8-flash", {}),
    ("ollama/llama3.2", {}),
    ("cohere/command-a-03-2025", {}),
]


class Refusing(LoopbackServer):
    """Keeps each request and refuses it, so that no answer has to be written."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[Any] = []

    async def respond(self, exchange: Exchange) -> None:
        self.bodies.append(exchange.json)
        await exchange.start(400, {"Content-Type": "application/json"})
        await exchange.write(b'{"error":{"message":"no"}}')
        await exchange.end()


async def _sent(model: str, said: list[Message], **options: Any) -> tuple[Any, list[Notice]]:
    async with Refusing() as server, swink.Client(retry=swink.RetryPolicy.none()) as client:
        own = {"base_url": server.url, "api_key": "test", **options}
        async with client.stream(model, said, **own) as stream:
            events = [event async for event in stream]
    return server.bodies[-1], [event for event in events if isinstance(event, Notice)]


@pytest.mark.parametrize(("model", "options"), NAMED, ids=[model for model, _ in NAMED])
async def test_an_api_with_names_gets_them(model: str, options: dict[str, Any]) -> None:
    said: list[Message] = [
        UserMessage("Hi", "ann"),
        UserMessage([TextBlock("And me."), TextBlock("Hello.")], "bob"),
        UserMessage("Who?"),
    ]
    body, notices = await _sent(model, said, **options)

    assert [turn.get("name") for turn in body["messages"]] == ["ann", "bob", None]
    assert [path for notice in notices for path in notice.paths] == []


@pytest.mark.parametrize(("model", "options"), NAMELESS, ids=[model for model, _ in NAMELESS])
async def test_a_notice_names_the_path_elsewhere(model: str, options: dict[str, Any]) -> None:
    body, notices = await _sent(model, [UserMessage("Hi", "ann")], **options)

    assert "ann" not in str(body)
    assert [n.paths for n in notices if n.code == "metadata_left_out"] == [("messages[0].name",)]


async def test_a_name_that_the_api_refuses_is_rewritten_with_a_notice() -> None:
    said: list[Message] = [UserMessage("Hi", "Ann Example"), UserMessage("Ho", "Ann|Example")]
    body, notices = await _sent("groq/llama-3.3-70b-versatile", said)

    first, second = (turn["name"] for turn in body["messages"])
    assert first != second
    assert first.startswith("Ann_Example_")
    paths = [path for notice in notices for path in notice.paths]
    assert paths == ["messages[0].name", "messages[1].name"]


def test_a_name_is_part_of_the_json_form() -> None:
    message = UserMessage("Hi", "ann")
    assert swink.dump(message) == {"role": "user", "content": "Hi", "name": "ann"}
    assert swink.load(UserMessage, swink.dump(message)) == message

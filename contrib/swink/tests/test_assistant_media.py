"""Media in an assistant message reach the wire, or the call is refused; no turn vanishes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import swink_core as swink
from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Block,
    DocumentBlock,
    Error,
    ExtensionBlock,
    ImageBlock,
    Message,
    Notice,
    StreamErrorKind,
    TextBlock,
    UserMessage,
)
from swink_recorder.loopback import Exchange, LoopbackServer

DATA = "aGVsbG8gd29ybGQ="
IMAGE = ImageBlock(Base64Source("image/png", DATA))
DOCUMENT = DocumentBlock(Base64Source("application/pdf", DATA))
AUDIO = AudioBlock(Base64Source("audio/mp3", DATA))


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


def _said(*blocks: Block, provider: str | None = None) -> list[Message]:
    return [UserMessage("Draw."), AssistantMessage([*blocks], provider), UserMessage("Bluer.")]


async def _sent(model: str, messages: list[Message]) -> tuple[Any, list[Notice], Error]:
    """Return the request that a conversation becomes, or `None`; the notices and the error."""
    async with Refusing() as server, swink.Client(retry=swink.RetryPolicy.none()) as client:
        own: Any = {"base_url": server.url, "api_key": "test", "rules": False}
        async with client.stream(model, messages, **own) as stream:
            events = [event async for event in stream]
    assert isinstance(events[-1], Error)
    notices = [event for event in events if isinstance(event, Notice)]
    return (server.bodies[-1] if server.bodies else None), notices, events[-1]


REFUSED = [
    "anthropic/claude-opus-4-8", "bedrock/us.amazon.nova-pro-v1:0", "openai/gpt-4.1",
    "openai/gpt-5.4", "groq/llama-3.3-70b-versatile", "mistral/mistral-large-latest",
    "cohere/command-a-03-2025", "xai/grok-4.7",
]  # fmt: skip


@pytest.mark.parametrize("block", [IMAGE, DOCUMENT, AUDIO], ids=["image", "document", "audio"])
@pytest.mark.parametrize("model", REFUSED)
async def test_media_that_an_assistant_message_cannot_hold_are_refused(
    model: str, block: Block
) -> None:
    for blocks in ([block], [TextBlock("Here."), block]):
        body, _, error = await _sent(model, _said(*blocks))

        assert body is None
        assert error.error_kind is StreamErrorKind.UNSUPPORTED
        assert f"messages[1].content[{len(blocks) - 1}]" in (error.error_message or "")


@pytest.mark.parametrize(
    ("block", "mime"), [(IMAGE, "image/png"), (DOCUMENT, "application/pdf"), (AUDIO, "audio/mp3")]
)
async def test_gemini_gets_media_in_the_models_turn(block: Block, mime: str) -> None:
    body, notices, _ = await _sent("gemini/gemini-3.8-flash", _said(TextBlock("Here."), block))

    assert notices == []
    assert body["contents"][1] == {
        "role": "model",
        "parts": [{"text": "Here."}, {"inlineData": {"mimeType": mime, "data": DATA}}],
    }


async def test_ollama_gets_images_in_the_models_turn() -> None:
    body, _, _ = await _sent("ollama/llama3.2", _said(TextBlock("Here."), IMAGE))

    assert body["messages"][1] == {"role": "assistant", "content": "Here.", "images": [DATA]}


async def test_openrouter_gets_images_in_the_models_turn() -> None:
    body, _, _ = await _sent("openrouter/google/gemini-3-flash", _said(IMAGE))

    url = f"data:image/png;base64,{DATA}"
    answer = body["messages"][1]
    assert answer["images"] == [{"type": "image_url", "image_url": {"url": url}}]


@pytest.mark.parametrize(
    ("model", "provider"),
    [("bedrock/us.amazon.nova-pro-v1:0", "bedrock"), ("groq/llama-3.3-70b-versatile", "groq")],
)
async def test_a_notice_names_a_generated_image_that_does_not_go_back(
    model: str, provider: str
) -> None:
    image = ExtensionBlock(provider, "image", {"url": DATA})
    for blocks in ([image], [TextBlock("Here."), image]):
        body, notices, _ = await _sent(model, _said(*blocks, provider=provider))

        assert DATA not in json.dumps(body)
        [notice] = [n for n in notices if n.code == "content_left_out"]
        assert f"messages[1].content[{len(blocks) - 1}]" in (notice.detail or "")


async def test_a_notice_names_a_turn_of_which_another_provider_reads_nothing() -> None:
    image = ExtensionBlock("gemini", "inlineData", {"inlineData": {"data": DATA}})
    body, notices, _ = await _sent("openai/gpt-4.1", _said(image, provider="gemini"))

    assert DATA not in json.dumps(body)
    assert ["messages[1]" in (n.detail or "") for n in notices] == [True]


async def test_a_refused_turn_may_be_left_to_the_next_model() -> None:
    async with Refusing() as server:
        own: Any = {"base_url": server.url, "api_key": "test"}
        models = ["anthropic/claude-opus-4-8", "gemini/gemini-3.8-flash"]
        providers: Any = {"anthropic": own, "gemini": own}
        async with (
            swink.Client(providers=providers, retry=swink.RetryPolicy.none()) as client,
            client.stream(models, _said(IMAGE)) as stream,
        ):
            async for _ in stream:
                pass

    assert [DATA in json.dumps(body) for body in server.bodies] == [True]

"""Requests apart from the body: headers, addresses, credentials, rejections."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import (
    AudioBlock,
    Base64Source,
    Client,
    Error,
    Message,
    Notice,
    RetryPolicy,
    UserMessage,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_anthropic import AnthropicProvider
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

ANSWER = (
    b'data: {"type":"message_start","message":{"id":"m"}}\n\n'
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}\n\n'
    b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}\n\n'
    b'data: {"type":"message_stop"}\n\n'
)


async def _ask(messages: str | list[Message] = "Hi", **options: Any) -> tuple[Any, Any]:
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers={"Content-Type": "text/event-stream"}))
    async with (
        Client(http=http, retry=RetryPolicy.none()) as client,
        client.stream("anthropic/claude-opus-4-6", messages, **options) as stream,
    ):
        events = [event async for event in stream]
    return (http.requests[0] if http.requests else None), events


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


async def test_a_request_as_it_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment")
    request, _ = await _ask(headers={"anthropic-beta": "compact-2026-01-12"})
    assert (request.method, request.url) == ("POST", "https://api.anthropic.com/v1/messages")
    assert request.headers == {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "compact-2026-01-12",
        "x-api-key": "from-the-environment",
    }
    assert msgspec.json.decode(request.body) == {
        "model": "claude-opus-4-6",
        "max_tokens": 128_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "stream": True,
    }


@pytest.mark.parametrize(
    ("variable", "option", "url"),
    [
        (None, None, "https://api.anthropic.com/v1/messages"),
        ("http://localhost:8080", None, "http://localhost:8080/v1/messages"),
        ("http://localhost:8080", "http://other/", "http://other/v1/messages"),
        (None, "http://other/anthropic", "http://other/anthropic/v1/messages"),
        (None, "http://other/v1", "http://other/v1/messages"),
    ],
)
async def test_addresses(
    variable: str | None, option: str | None, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if variable is not None:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", variable)
    request, _ = await _ask(api_key="test", base_url=option)
    assert request.url == url


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key"])
async def test_credentials_in_headers_stand_for_a_key(name: str) -> None:
    request, events = await _ask(headers={name: "Bearer of-a-gateway"})
    assert {
        k: v for k, v in request.headers.items() if k.lower() in ("authorization", "x-api-key")
    } == {name: "Bearer of-a-gateway"}
    assert not isinstance(events[-1], Error)
    assert name.lower() in AnthropicProvider.credential_headers  # and a cache knows the caller


async def test_without_a_key_nothing_is_sent() -> None:
    request, events = await _ask()
    assert request is None
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.AUTH
    assert "ANTHROPIC_API_KEY" in events[-1].error_message


@pytest.mark.parametrize(
    ("feature", "messages", "options"),
    [
        ("json", "Hi", {"response_format": "json"}),
        ("audio", [UserMessage([AudioBlock(Base64Source("audio/wav", "UklG"))])], {}),
        ("websocket transport", "Hi", {"transport": "websocket"}),
    ],
)
async def test_what_the_api_lacks_is_refused_before_a_byte_is_sent(
    feature: str, messages: Any, options: dict[str, Any]
) -> None:
    request, events = await _ask(messages, api_key="test", **options)
    assert request is None
    assert isinstance(events[-1], Error)
    assert events[-1].error_kind is Kind.UNSUPPORTED
    assert feature in events[-1].error_message


async def test_notices_come_before_the_answer() -> None:
    _, events = await _ask(api_key="test", temperature=0.5, top_p=0.5)
    assert events[1] == Notice(
        "option_ignored",
        "anthropic/claude-opus-4-6 does not support top_p; it was not sent",
        ("options.top_p",),
    )

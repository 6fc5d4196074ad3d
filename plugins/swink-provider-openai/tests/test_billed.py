"""Cost of an answer by region and cache duration."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    CacheStrategy,
    Host,
    RetryPolicy,
)
from swink_core.providers import Catalog
from swink_testing.calls import client_with
from swink_testing.clock import DatedClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

DAY = DatedClock(datetime(2026, 11, 1, tzinfo=UTC))
SSE = {"Content-Type": "text/event-stream"}
COUNTS = {"input_tokens": 4000, "output_tokens": 100,
          "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 2000}}  # fmt: skip
CHAT_COUNTS = {"prompt_tokens": 4000, "completion_tokens": 100}


async def answered(
    model: str, base_url: str | None = None, streamed: bool = True, **response: Any
) -> AssistantMessage:
    """Return the answer with such a response, over Responses or, of gpt-4o, Chat Completions."""
    if "gpt-4o" in model or "chat" in response:
        chat = {"choices": [{"delta": {"content": "Hi"}, "message": {"content": "Hi"},
                             "finish_reason": "stop"}], "usage": CHAT_COUNTS}  # fmt: skip
        frames: list[Any] = [chat]
    else:
        part = {"type": "output_text", "text": "Hi"}
        item = {"type": "message", "id": "m", "content": [part]}
        done = {"status": "completed", "usage": COUNTS, "output": [item], **response}
        frames = [{"type": "response.completed", "response": done}] if streamed else [done]
    data = [json.dumps(frame) for frame in frames]
    body = "".join(f"data: {frame}\n\n" for frame in data) if streamed else data[0]
    headers = SSE if streamed else {"Content-Type": "application/json"}
    http = MemoryHTTPClient(MemoryResponse([body.encode()], headers=headers))
    options: dict[str, Any] = {} if streamed else {"transport": "buffered"}
    async with client_with(
        http=http, api_key="test", retry=RetryPolicy.none(), clock=DAY
    ) as client:
        return await client.complete(model, "Hi", base_url=base_url, **options)


def dollars(message: AssistantMessage) -> float:
    assert message.cost is not None
    assert message.cost.total is not None
    return message.cost.total


HOSTS = [
    ("openai/gpt-5.6-sol", "https://eu.api.openai.com/v1", 1.1),
    ("openai/gpt-5.6-sol", "https://us.api.openai.com/v1", 1.1),
    ("openai/gpt-5.6-sol", "https://api.openai.com/v1", 1.0),
    ("openai/gpt-5.6-sol", "https://eu.api.openai.com.example/v1", 1.0),
    ("openai/gpt-5.4", "https://eu.api.openai.com/v1", 1.1),
    ("openai/gpt-5.2", "https://eu.api.openai.com/v1", 1.0),
    ("openai/gpt-4o", "https://eu.api.openai.com/v1", 1.0),
    ("xai/grok-4.6", "https://us.api.x.ai/v1", 1.1),
    ("xai/grok-4.5", "https://us.api.x.ai/v1", 1.0),
]


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(("model", "base_url", "factor"), HOSTS)
async def test_a_host_of_one_region_costs_more_for_newer_models(
    model: str, base_url: str, factor: float, streamed: bool
) -> None:
    usual = await answered(model, streamed=streamed)
    regional = await answered(model, base_url, streamed)

    assert dollars(regional) == pytest.approx(dollars(usual) * factor)


@pytest.mark.parametrize(("said", "rate"), [("12h", 10.0), ("30m", 5.0)])
async def test_what_is_kept_for_twelve_hours_is_billed_so(said: str, rate: float) -> None:
    options = {"mode": "implicit", "ttl": said}
    message = await answered("openai/gpt-5.6-sol", prompt_cache_options=options)

    assert message.cost is not None
    assert message.cost.cache_write == pytest.approx(2000 * rate / 1e6)


async def test_chat_completions_keeps_no_prompt_for_hours_and_is_not_billed_so() -> None:
    counts = {**CHAT_COUNTS, "prompt_tokens_details": {"cache_write_tokens": 2000}}
    chunk = {"choices": [{"delta": {"content": "Hi"}, "finish_reason": "stop"}], "usage": counts}
    body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    http = MemoryHTTPClient(MemoryResponse([body], headers=SSE))
    kept = CacheStrategy(ttl=43_200)
    async with client_with(
        http=http, api_key="test", retry=RetryPolicy.none(), clock=DAY
    ) as client:
        message = await client.complete(
            "openai/gpt-5.6-sol", "Hi", cache=kept, settings={"api": "chat"}
        )

    assert message.cost is not None
    assert message.cost.cache_write == pytest.approx(2000 * 5.0 / 1e6)


def test_twelve_hours_of_cache_cost_twice_the_half_hour() -> None:
    compared = 0
    for info in Catalog(Host()).models("openai"):
        if info.prices and info.prices.cache_write and info.id.startswith(("gpt-5.6", "gpt-6")):
            assert info.prices.cache_write_long == info.prices.cache_write * 2, info.id
            compared += 1
    assert compared


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize(
    ("item", "searches"),
    [
        ({"type": "web_search_call", "action": {"type": "search", "query": "a"}}, 1),
        ({"type": "web_search_call"}, 1),
        ({"type": "web_search_call", "action": {"type": "open_page", "url": "https://a"}}, None),
        ({"type": "image_generation_call", "action": "generate", "result": "aGk="}, None),
    ],
    ids=["a search", "a search without an action", "a page that is read", "an image"],
)
async def test_searches_are_counted_and_other_actions_are_not(
    item: dict[str, Any], searches: int | None, streamed: bool
) -> None:
    """An image's action is a text, as OpenAI's openapi.yaml has it and servers send it."""
    whole = {"id": "i_1", "status": "completed", **item}
    message = await answered("openai/gpt-5.4", streamed=streamed, output=[whole])

    assert message.error_kind is None, message.error_message
    assert message.usage is not None
    assert message.usage.extra.get("searches") == searches

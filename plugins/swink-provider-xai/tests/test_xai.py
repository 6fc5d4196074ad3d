"""Requests to xAI, and messages from its recorded answers."""

from __future__ import annotations

from typing import Any

import pytest

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_provider_xai import XAIProvider
from swink_test_helpers.outgoing import leaving
from swink_test_helpers.recorded_chat import RecordedChat
from swink_testing.calls import client_with
from swink_testing.driver import (
    MemoryHTTPClient,
    MemoryResponse,
)

PROVIDER = XAIProvider("xai")
MODEL = swink.Model("xai", "grok-4.7")
DONE = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'


class TestRecorded(RecordedChat):
    folder = "xai"
    provider = PROVIDER


async def call(response: MemoryResponse, **options: Any) -> tuple[MemoryHTTPClient, Any]:
    http = MemoryHTTPClient(response)
    async with client_with(http=http, api_key="test") as client:
        stream = client.stream(str(MODEL), "Hi", retry=swink.RetryPolicy.none(), **options)
        events = [event async for event in stream]
    return http, events[-1]


async def test_a_search_and_limits_are_sent_to_the_current_api() -> None:
    search = {"type": "web_search"}
    http, _ = await call(MemoryResponse([DONE]), max_tokens=90, extra={"tools": [search]})
    body = http.bodies[0]
    assert http.requests[0].url == "https://api.x.ai/v1/responses"
    assert body["tools"] == [search]
    assert body["max_output_tokens"] == 90


HOSTED: list[dict[str, Any]] = [
    {"type": "web_search", "filters": {"allowed_domains": ["a.example"]}},
    {"type": "x_search", "allowed_x_handles": ["xai"], "from_date": "2026-11-01"},
    {"type": "code_interpreter"},
    {"type": "file_search", "vector_store_ids": ["collection_1"]},
    {"type": "mcp", "server_url": "https://mcp.example", "server_label": "tides"},
]


@pytest.mark.parametrize("tool", HOSTED, ids=[tool["type"] for tool in HOSTED])
def test_every_tool_of_xais_own_stands_beside_the_callers(tool: dict[str, Any]) -> None:
    context = swink.Context([swink.UserMessage("Hi")], tools=[swink.Tool("look")])
    found = leaving(PROVIDER, str(MODEL), context, thinking="low", extra={"tools": [tool]})
    assert [each.get("name", each["type"]) for each in found.body["tools"]] == [
        "look", tool["type"],
    ]  # fmt: skip
    assert found.body["tools"][1] == tool
    assert found.body["include"] == ["reasoning.encrypted_content"]
    assert (found.notices, found.refused_by) == ([], [])


@pytest.mark.parametrize(
    ("api", "field", "said"),
    [("responses", "s-1", []), ("chat", None, ["does not support session_id; it was not sent"])],
)
def test_a_session_is_a_key_of_the_cache(api: str, field: str | None, said: list[str]) -> None:
    found = leaving(PROVIDER, str(MODEL), session_id="s-1", settings={"api": api})
    assert (found.body.get("prompt_cache_key"), found.notices) == (field, said)


FILES = [
    (swink.UrlSource("https://a.example/a.pdf"), {"file_url": "https://a.example/a.pdf"}),
    (swink.FileIdSource("xai", "file-1"), {"file_id": "file-1"}),
]


@pytest.mark.parametrize(("source", "field"), FILES)
def test_files_go_by_address_or_id(source: Any, field: dict[str, str]) -> None:
    turn = swink.UserMessage([swink.TextBlock("Read."), swink.DocumentBlock(source)])
    found = leaving(PROVIDER, str(MODEL), swink.Context([turn]))
    assert found.body["input"][0]["content"][1] == {"type": "input_file", **field}
    assert (found.notices, found.refused_by) == ([], [])


async def test_the_data_of_a_file_is_refused_with_the_way_it_goes() -> None:
    paper = swink.DocumentBlock(swink.Base64Source("application/pdf", "aQ=="))
    async with client_with(http=(http := MemoryHTTPClient()), api_key="test") as client:
        stream = client.stream(str(MODEL), [swink.UserMessage([paper])])
        *_, failed = [event async for event in stream]
    assert isinstance(failed, swink.Error)
    assert failed.error_kind is Kind.UNSUPPORTED
    assert "send a URL, or upload them" in failed.error_message
    assert http.requests == []


def test_prompts_are_kept_as_long_as_xai_does() -> None:
    found = leaving(PROVIDER, str(MODEL), cache=swink.CacheStrategy(ttl=86400))
    assert found.notices == ["does not support cache; it was not sent"]
    assert not {"prompt_cache_retention", "prompt_cache_options"} & found.body.keys()


async def test_the_cost_that_xai_reports_is_used() -> None:
    usage = (
        b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,'
    )
    ticks = b'"cost_in_usd_ticks":12345000000}}\n\n'
    _, terminal = await call(MemoryResponse([DONE, usage + ticks]))
    assert terminal.cost.total == pytest.approx(1.2345)

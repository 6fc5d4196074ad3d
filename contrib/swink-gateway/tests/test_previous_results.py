"""A continuation by `previous_response_id` sends a vendor the same as the complete conversation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import aiohttp
import pytest

import swink
from swink_core import AssistantMessage, ToolCallBlock, ToolResultMessage, UserMessage
from swink_gateway.serving.server import Gateway
from swink_judge.strict import StrictServer
from swink_recorder.loopback import Exchange

TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "Look up the weather.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": False,
}
CITY = '{"city": "Rome"}'

MODELS = {
    "anthropic": "anthropic/claude-haiku-4-5",
    "gemini": "gemini/gemini-3.8-flash",
    "openai": "openai/gpt-5.4-mini",
    "groq": "groq/llama-3.3-70b-versatile",
}


class Vendor(StrictServer):
    """A strict server that first calls the tool and then answers with text."""

    async def respond(self, exchange: Exchange) -> None:
        if self.asked:
            await super().respond(exchange)
            return
        assert self._reply(exchange).status == 200  # it validates this request as well
        content_type, body = _CALLS[self.provider]
        await exchange.start(200, {"Content-Type": content_type})
        await exchange.write(body)
        await exchange.end()


def _data(*events: Any) -> tuple[str, bytes]:
    return "text/event-stream", b"".join(b"data: %b\n\n" % json.dumps(e).encode() for e in events)


_ITEM = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather"}
_USAGE = {"input_tokens": 3, "output_tokens": 2}
_CALLS = {
    "anthropic": _data(
        {"type": "message_start", "message": {"id": "m1", "model": "m", "usage": _USAGE}},
        {"type": "content_block_start", "index": 0, "content_block": {
            "type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": {
            "type": "input_json_delta", "partial_json": CITY}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": _USAGE},
        {"type": "message_stop"},
    ),
    "gemini": _data(
        {"responseId": "g1", "candidates": [{"finishReason": "STOP", "content": {
            "role": "model", "parts": [{"functionCall": {
                "name": "get_weather", "args": {"city": "Rome"}}}]}}]},
    ),
    "openai": _data(
        {"type": "response.created", "response": {"id": "resp_up", "model": "m"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {
            **_ITEM, "arguments": ""}},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "item_id": "fc_1",
         "delta": CITY},
        {"type": "response.output_item.done", "output_index": 0, "item": {
            **_ITEM, "arguments": CITY, "status": "completed"}},
        {"type": "response.completed", "response": {
            "id": "resp_up", "model": "m", "status": "completed", "usage": _USAGE}},
    ),
    "groq": _data(
        {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"tool_calls": [{
            "index": 0, "id": "call_1", "type": "function", "function": {
                "name": "get_weather", "arguments": CITY}}]}}]},
        {"id": "c1", "model": "m", "choices": [{
            "index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ),
}  # fmt: skip


class Session:
    """A client of the gateway's Responses protocol."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session, self._url = session, url

    async def ask(self, **body: Any) -> dict[str, Any]:
        request = {"model": "m", "stream": False, **body}
        async with self._session.post(f"{self._url}/v1/responses", json=request) as response:
            answer: dict[str, Any] = await response.json()
            assert response.status == 200, answer
            return answer


@asynccontextmanager
async def _asking(server: Vendor, settings: dict[str, Any] | None = None) -> AsyncIterator[Session]:
    provider = server.provider
    await server.start()
    own = {"base_url": server.url, "api_key": "test", **(settings or {})}
    async with (
        aclosing(server),
        swink.Client(providers={provider: own}, retry=swink.RetryPolicy.none()) as client,
        Gateway(client, routes={"m": [MODELS[provider]]}) as gateway,
        aiohttp.ClientSession() as session,
    ):
        yield Session(session, gateway.url)


async def _last_request(provider: str, kept: bool, **more: Any) -> tuple[Vendor, Any]:
    """Return the vendor's last request in a conversation with a tool result."""
    server = Vendor(provider)
    settings = {"api": "responses"} if provider == "openai" else None
    async with _asking(server, settings) as client:
        first = await client.ask(input="Weather?", tools=[TOOL])
        [call] = [item for item in first["output"] if item["type"] == "function_call"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "21"}
        asked: dict[str, Any] = {"input": [result], "previous_response_id": first["id"]}
        if not kept:
            asked = {"input": [{"role": "user", "content": "Weather?"}, *first["output"], result]}
        await client.ask(**asked, tools=[TOOL], **more)
    assert server.refused == []
    return server, server.asked[-1].body


@pytest.mark.parametrize("provider", sorted(_CALLS))
async def test_a_result_by_previous_response_id_equals_the_complete_conversation(
    provider: str,
) -> None:
    _, kept = await _last_request(provider, kept=True)
    _, whole = await _last_request(provider, kept=False)

    assert kept == whole
    assert "get_weather" in json.dumps(kept)
    assert "_e3b0c442" not in json.dumps(kept)
    assert "tool_choice" not in kept
    assert "toolConfig" not in kept


@pytest.mark.parametrize("provider", sorted(_CALLS))
async def test_a_tool_choice_works_with_a_stored_conversation(provider: str) -> None:
    choice = {"type": "function", "name": "get_weather"}
    _, body = await _last_request(provider, kept=True, tool_choice=choice)

    wanted: dict[str, tuple[str, Any]] = {
        "anthropic": ("tool_choice", {"type": "tool", "name": "get_weather"}),
        "gemini": (
            "toolConfig",
            {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["get_weather"]}},
        ),
        "openai": ("tool_choice", choice),
        "groq": ("tool_choice", {"type": "function", "function": {"name": "get_weather"}}),
    }
    field, value = wanted[provider]
    assert body[field] == value


@pytest.mark.parametrize("name", ["get weather", "get_weather"])
async def test_a_result_without_a_name_gets_the_name_of_its_call(name: str) -> None:
    said = [
        UserMessage("Weather?"),
        AssistantMessage([ToolCallBlock("c1", name, {"city": "Rome"}, CITY)]),
        ToolResultMessage("c1", "", "21"),
    ]
    async with StrictServer("gemini") as server, swink.Client() as client:
        await client.complete(
            MODELS["gemini"], said, tools=[swink.Tool(name)], base_url=server.url, api_key="test"
        )

    _, answer, results = server.asked[-1].body["contents"]
    call = answer["parts"][0]["functionCall"]
    assert results["parts"][0]["functionResponse"]["name"] == call["name"]
    assert server.refused == []

"""Agent conversations of three lengths, with tools, as an application sends them.

A conversation of 31 messages is one user message and 15 rounds of a tool call and its result. The
cost of a call grows with what it sends, so the benchmarks measure short and long conversations.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

import swink_core as swink
from lab.benchmarks.formats import FORMATS, Format
from swink_core.providers import HTTPRequest
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SIZES = (1, 31, 301)
"""Messages of a conversation."""

DELTAS = (3, 300)
"""Text deltas of an answer."""

TOOLS = 8

PROTOCOLS: dict[str, Format] = {
    each.name.lower(): each for each in FORMATS if each.name in ("Chat", "Messages", "Responses")
}
"""The wire formats, by the name that a command line gives them."""

PROVIDERS: dict[str, dict[str, Any]] = {
    name: {"api_key": "sk-bench", "base_url": "http://replay.invalid/v1"}
    for name in ("openai", "anthropic")
}

_SENTENCE = "The gauge at station {} reads {} centimetres, and the wind is from the south-west. "


def _tool(number: int) -> swink.Tool:
    properties = {
        "station": {"type": "string", "description": "The name of the station."},
        "unit": {"type": "string", "enum": ["cm", "in"], "description": "The unit of the level."},
        "since": {"type": "integer", "description": "Hours before now."},
        "series": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}}},
        },
    }
    schema = {"type": "object", "properties": properties, "required": ["station"]}
    return swink.Tool(f"read_gauge_{number}", "Read the water level at a station.", schema)


def _round(number: int) -> tuple[swink.Message, swink.Message]:
    """Return a tool call of the assistant and the tool's result."""
    call_id = f"call_{number}"
    name = f"read_gauge_{number % TOOLS}"
    arguments = {"station": f"Dover {number}", "since": number, "unit": "cm"}
    call = swink.ToolCallBlock(call_id, name, arguments, json.dumps(arguments))
    asking = swink.AssistantMessage([swink.TextBlock("I will read the gauge."), call])
    result = _SENTENCE.format(number, number * 7) * 3
    return asking, swink.ToolResultMessage(call_id, name, result)


def conversation(messages: int) -> swink.Context:
    """Return a conversation of so many messages, an odd number, with eight tools."""
    history: list[swink.Message] = [swink.UserMessage("How high is the water at each station?")]
    for number in range(messages // 2):
        history.extend(_round(number))
    tools = [_tool(number) for number in range(TOOLS)]
    return swink.Context(history, system_prompt=_SENTENCE.format(0, 0) * 10, tools=tools)


class Answering(MemoryHTTPClient):
    """An HTTP client in memory that answers each request with `deltas` deltas."""

    def __init__(self, protocol: Format) -> None:
        super().__init__()
        self._pieces = {deltas: protocol.pieces(deltas) for deltas in DELTAS}
        self._head = {"Content-Type": protocol.content_type}
        self.deltas = DELTAS[0]
        self.body = b""
        """The body of the last request."""

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> MemoryResponse:
        """Answer, without a network."""
        self.body = request.body
        return MemoryResponse(self._pieces[self.deltas], headers=self._head)


async def read(client: swink.Client, protocol: Format, context: swink.Context) -> str:
    """Make a call with a conversation, and return the text of the answer."""
    async with client.stream(protocol.model, context) as stream:
        async for _ in stream:
            pass
    return stream.message.text


def floor(protocol: Format, body: Any, pieces: list[bytes]) -> str:
    """Encode a body once and read an answer: the least work of the same call."""
    if not orjson.dumps(body):
        raise AssertionError("the body is empty")
    return protocol.floor(pieces)

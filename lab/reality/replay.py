"""Play recorded answers through swink's adapters, and send what they make back as history."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeAlias

from lab.reality.cassettes import Exchange
from lab.reality.readings import Answer
from swink_core import (
    AssistantMessage,
    Client,
    Context,
    Message,
    Tool,
    ToolResultMessage,
    UserMessage,
)
from swink_judge import Asked, Judge, Rule, asked_of
from swink_testing.clock import DatedClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

__all__ = ["VARIABLES", "differences", "history_refusals", "replayed"]

JSON: TypeAlias = Any

VARIABLES = {
    "AWS_ACCESS_KEY_ID": "example",
    "AWS_SECRET_ACCESS_KEY": "example",
    "AWS_REGION": "us-east-1",
    "GOOGLE_CLOUD_PROJECT": "example",
    "GOOGLE_CLOUD_LOCATION": "us-central1",
    "AZURE_OPENAI_ENDPOINT": "https://example.openai.azure.com",
}
"""Variables without which some providers refuse every call; nothing is sent anywhere."""

BEFORE = datetime(2023, 1, 1, tzinfo=UTC)
"""The day on which calls are made: no model is too old for it."""


def is_stream(exchange: Exchange) -> bool:
    """Tell whether the answer was streamed; some recorders lose its media type."""
    start = exchange.answer.lstrip()[:6]
    return exchange.media_type in (
        "application/vnd.amazon.eventstream",
        "application/x-ndjson",
    ) or start.startswith((b"data:", b"event:", b": "))


def _client(http: MemoryHTTPClient) -> Client:
    return Client(http=http, retry=False, clock=DatedClock(BEFORE))


def _options(asked: Asked, transport: str) -> dict[str, JSON]:
    """Return the options that select the API of the recording."""
    options: dict[str, JSON] = {"api_key": "example", "transport": transport}
    info = _client(MemoryHTTPClient()).catalog.provider(asked.provider)
    if info is not None and asked.api in info.settings.get("api", ()):
        options["settings"] = {"api": asked.api}
    return options


async def replayed(asked: Asked, exchange: Exchange) -> AssistantMessage:
    """Play an answer through its provider, with the API of the recording.

    Raises SwinkError where swink refuses to make the call.
    """
    headers = dict(exchange.headers)
    headers.pop("content-encoding", None)
    headers.pop("transfer-encoding", None)
    headers.pop("content-length", None)
    http = MemoryHTTPClient(MemoryResponse([exchange.answer], exchange.status, headers))
    transport = "sse" if is_stream(exchange) else "buffered"
    async with _client(http) as client:
        stream = client.stream(
            f"{asked.provider}/{asked.model}", "Hello", **_options(asked, transport)
        )
        async for _ in stream:
            pass
        return stream.message


def differences(answer: Answer, message: AssistantMessage) -> list[str]:
    """Name what the message and an independent reading of the same answer differ in."""
    found = []
    if message.text != answer.text:
        found.append("text")
    calls = [(call.name, call.arguments) for call in message.tool_calls]
    if calls != answer.calls:
        found.append("tool calls")
    reported = message.usage.output if message.usage else None
    if answer.output is not None and reported != answer.output:
        found.append("output tokens")
    return found


def _conversation(message: AssistantMessage) -> Context:
    """Return a conversation that goes on after the message, with a result for each tool call."""
    names = {call.name for call in message.tool_calls}
    results: list[Message] = [
        ToolResultMessage(call.id, call.name, "It worked.") for call in message.tool_calls
    ]
    tools = [Tool(name, "A tool.", {"type": "object", "properties": {}}) for name in sorted(names)]
    messages: list[Message] = [UserMessage("Hello"), message, *results]
    if not results:
        messages.append(UserMessage("Go on."))
    return Context(messages, tools=tools)


async def history_refusals(judge: Judge, asked: Asked, message: AssistantMessage) -> list[Rule]:
    """Send the message back as history over the same API; return the rules that refuse it.

    Raises SwinkError where swink refuses to make the call.
    """
    http = MemoryHTTPClient(MemoryResponse([], 500))
    async with _client(http) as client:
        stream = client.stream(
            f"{asked.provider}/{asked.model}",
            _conversation(message),
            max_tokens=100,
            **_options(asked, "auto"),
        )
        async for _ in stream:
            pass
    if not http.requests:
        raise RuntimeError(f"no request was made: {stream.message.error_message}")
    request = http.requests[0]
    again = asked_of(asked.provider, request.url, request.body)
    if again is None:
        return []
    rules = judge.refusals(again.provider, again.api, asked.model, again.body)
    return [rule for rule in rules if rule.refuses and not rule.is_retirement]

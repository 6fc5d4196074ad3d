"""A conversation of two turns in which a provider answers what a test gives it.

    message, body = await two_turns("acme/large", ANSWER)

The first answer goes through the codec, as a conversation does that is stored, and back with
what the user says next. Both requests are judged: see `swink_judge`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core import (
    AssistantMessage,
    Context,
    Message,
    RetryPolicy,
    ToolResultMessage,
    UserMessage,
    dump,
    load,
)
from swink_judge import Judge, asked_of
from swink_testing.calls import client_with
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

__all__ = ["two_turns"]


async def two_turns(
    model: str, answer: bytes, content_type: str = "text/event-stream", **options: Any
) -> tuple[AssistantMessage, Any]:
    """Return the message that an answer becomes, and the body of the request that takes it back.

    Raises AssertionError where the message is another after the codec, or a request is one that
    the real API refuses.
    """
    answers = [MemoryResponse([answer], 200, {"Content-Type": content_type}) for _ in range(2)]
    http = MemoryHTTPClient(*answers)
    async with client_with(http=http, api_key="test", retry=RetryPolicy.none()) as client:
        message = await client.complete(model, "Hello", **options)
        stored = load(AssistantMessage, msgspec.json.decode(msgspec.json.encode(dump(message))))
        assert stored == message
        results = [ToolResultMessage(call.id, call.name, "done") for call in message.tool_calls]
        turns: list[Message] = [UserMessage("Hello"), stored, *results, UserMessage("Go on.")]
        await client.complete(model, Context(turns), **options)
    provider = model.partition("/")[0]
    for request in http.requests:
        asked = asked_of(provider, request.url, request.body)
        assert asked is not None, request.url
        broken = Judge().refusals(provider, asked.api, asked.model, asked.body)
        assert not [rule.message for rule in broken if rule.refuses]
    return message, http.bodies[1]

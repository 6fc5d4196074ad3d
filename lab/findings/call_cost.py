"""Print how the processor time of a call grows with the conversation, in memory.

    python -m lab.findings.call_cost [PROVIDER/MODEL]

The conversation is an agent's: a question, then a tool call and its result in turn. The answer is
two frames of Chat Completions, so nearly all of the time is spent before the request is sent.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

from swink_core import (
    AssistantMessage,
    Client,
    Message,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

MODEL = "groq/openai/gpt-oss-120b"

TURNS = (0, 5, 20, 75, 150)
"""Tool calls in the conversation; each adds two messages."""

CALLS = 40

ROUNDS = 4
"""The fastest of them counts: other work on the machine only adds time."""

ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
)

TOOL = Tool("look_up", "Look something up.", {"type": "object", "properties": {}})


def conversation(turns: int) -> list[Message]:
    """Return a conversation of so many tool calls."""
    messages: list[Message] = [UserMessage("Why do lighthouses blink?")]
    for number in range(turns):
        call = ToolCallBlock(f"call_{number}", "look_up", {"page": number})
        messages.append(AssistantMessage([call]))
        messages.append(ToolResultMessage(f"call_{number}", "look_up", "Nothing here. " * 20))
    return messages


async def milliseconds(model: str, messages: Sequence[Message]) -> float:
    """Measure the processor time of one call."""
    http = MemoryHTTPClient(*[MemoryResponse([ANSWER]) for _ in range(CALLS + 1)])
    providers = {model.partition("/")[0]: {"api_key": "test", "base_url": "http://vendor.invalid"}}
    async with Client(http=http, providers=providers) as client:
        await client.complete(model, messages, tools=[TOOL])
        began = time.process_time()
        for _ in range(CALLS):
            await client.complete(model, messages, tools=[TOOL])
        return (time.process_time() - began) / CALLS * 1000


def main() -> None:
    """Print one line for each length."""
    model = sys.argv[1] if len(sys.argv) > 1 else MODEL
    print("messages   ms a call   ms a message")
    for turns in TURNS:
        messages = conversation(turns)
        spent = min(asyncio.run(milliseconds(model, messages)) for _ in range(ROUNDS))
        print(f"{len(messages):8} {spent:11.3f} {spent / len(messages):14.4f}")


if __name__ == "__main__":
    main()

"""Calls to echo, and what they offer it."""

from __future__ import annotations

import asyncio
from typing import Any

from swink_core import AssistantMessage, Base64Source, Client, Tool

PIXEL = Base64Source("image/png", "QUJDRA==")  # four bytes

ADD = Tool(
    "add",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "note": {"type": "string"}},
    },
)
MULTIPLY = Tool("multiply")


def ask(model: str, context: Any, **options: Any) -> AssistantMessage:
    async def run() -> AssistantMessage:
        async with Client() as client:
            return await client.complete(f"echo/{model}", context, **options)

    return asyncio.run(run())

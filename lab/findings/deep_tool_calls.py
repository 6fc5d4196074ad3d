"""Print which parts of swink survive a tool call whose arguments are deeply nested.

    python -m lab.findings.deep_tool_calls

An answer of 700 bytes decides the depth. A failure has to be a `SwinkError`. `nesting_depth`
tries the operations on a message alone.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import swink
from lab.findings.upstreams import chat_chunk, event_stream, verdict
from swink_cache import SwinkCache
from swink_recorder.recorder import Recorder
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

MODEL = "deepseek/deepseek-flash"
PROVIDERS = {"deepseek": {"api_key": "test", "base_url": "http://vendor.invalid"}}
DEPTHS = (60, 150, 250, 340, 600)


def look(a: list[Any]) -> str:
    """Look at something."""
    return "ok"


LOOK = swink.tool(look).definition


def nested(depth: int) -> MemoryResponse:
    """Return a response with a tool call of such a depth."""
    arguments = '{"a":' + "[" * depth + "]" * depth + "}"
    call = {"index": 0, "id": "call_0", "function": {"name": "look", "arguments": arguments}}
    return event_stream(chat_chunk({"tool_calls": [call]}), chat_chunk({}, "tool_calls"))


def client(depth: int, *plugins: object) -> swink.Client:
    """Return a client whose first answer calls the tool, and whose second is text."""
    words = event_stream(chat_chunk({"content": "Done."}), chat_chunk({}, "stop"))
    http = MemoryHTTPClient(nested(depth), words)
    return swink.Client(http=http, providers=PROVIDERS, plugins=plugins, retry=False)


async def a_run(depth: int) -> None:
    """Run an agent."""
    async with client(depth) as own, own.run(MODEL, "Hi", tools=[look]) as run:
        async for _ in run:
            pass


async def a_next_turn(depth: int) -> None:
    """Send the call back with its result."""
    async with client(depth) as own:
        message = await own.complete(MODEL, "Hi", tools=[LOOK])
        result = swink.ToolResultMessage("call_0", "look", "ok")
        messages: list[swink.Message] = [swink.UserMessage("Hi"), message, result]
        await own.complete(MODEL, messages, tools=[LOOK])


async def a_stored_message(depth: int) -> None:
    """Dump the answer and load it."""
    async with client(depth) as own:
        message = await own.complete(MODEL, "Hi", tools=[LOOK])
    swink.load(swink.AssistantMessage, swink.dump(message))


async def cached(depth: int) -> None:
    """Answer the same call again from the cache. Raises where it was sent twice."""
    http = MemoryHTTPClient(nested(depth))
    with tempfile.TemporaryDirectory() as folder:
        cache = SwinkCache(Path(folder) / "cache.sqlite")
        async with swink.Client(
            http=http, providers=PROVIDERS, plugins=[cache], retry=False
        ) as own:
            for _ in range(2):
                await own.complete(MODEL, "Hi", tools=[LOOK])
        await cache.aclose()


def files_in(folder: str) -> int:
    """Return the number of files in a folder."""
    return sum(path.is_file() for path in Path(folder).rglob("*"))


async def recorded(depth: int) -> None:
    """Record the call. Raises where the folder stays empty."""
    with tempfile.TemporaryDirectory() as folder:
        recorder = Recorder(folder)
        async with client(depth, recorder) as own:
            await own.complete(MODEL, "Hi", tools=[LOOK])
        await recorder.aclose()
        if not files_in(folder):
            raise RuntimeError("nothing was recorded")


WAYS: dict[str, Callable[[int], Awaitable[None]]] = {
    "client.run": a_run,
    "next turn": a_next_turn,
    "dump and load": a_stored_message,
    "cache": cached,
    "recorder": recorded,
}


async def execute() -> None:
    """Print one line for each way to use the answer."""
    for name, way in WAYS.items():
        outcomes: list[str] = []
        right = True
        for depth in DEPTHS:
            try:
                await way(depth)
                outcomes.append(f"{depth} works")
            except swink.SwinkError as error:
                outcomes.append(f"{depth} {type(error).__name__}")
            except (Exception, RecursionError) as error:
                right = False
                outcomes.append(f"{depth} RAW {type(error).__name__}")
        verdict(right, name, ", ".join(outcomes))


def main() -> None:
    """Run the program."""
    logging.disable(logging.CRITICAL)
    asyncio.run(execute())


if __name__ == "__main__":
    main()

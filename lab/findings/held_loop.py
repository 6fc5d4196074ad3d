"""Print how long a hostile answer holds the event loop, and whether a deadline of one second fires.

    python -m lab.findings.held_loop

Typed answers whose fence is followed by newlines, and fragments of calls beside a long open call.
`hostile_answers` measures the same parsers without a call around them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import swink
from lab.findings.upstreams import chat_chunk, event_stream
from swink_testing.driver import MemoryHTTPClient

MODEL = "deepseek/deepseek-flash"
PROVIDERS = {"deepseek": {"api_key": "test", "base_url": "http://vendor.invalid"}}
SIZES = (20_000, 60_000, 240_000)
FRAGMENTS = 64


@dataclass
class Answer:
    """The type of the typed answer."""

    a: int


class Lag:
    """Measure the longest time that the event loop was held."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        """Measure until the task is cancelled."""
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.perf_counter() - began - 0.001)


def fenced(size: int) -> list[object]:
    """Return an answer of JSON between fences that ends in newlines."""
    text = '```json\n{"a": 1}' + "\n" * size
    return [chat_chunk({"content": text}), chat_chunk({}, "stop")]


def stray_fragments(size: int) -> list[object]:
    """Return a long tool call, and fragments of calls that were never opened."""
    function = {"name": "look", "arguments": '{"a":[' + "[]," * (size // 3)}
    call = {"index": 0, "id": "call_0", "function": function}
    frames: list[object] = [chat_chunk({"tool_calls": [call]})]
    for number in range(FRAGMENTS):
        stray = {"index": number + 1, "function": {"arguments": "1"}}
        frames.append(chat_chunk({"tool_calls": [stray]}))
    return [*frames, chat_chunk({}, "tool_calls")]


async def measured(frames: Sequence[object], options: dict[str, Any]) -> tuple[float, float, str]:
    """Return the longest hold in seconds, the processor time of the call, and its ending."""
    http = MemoryHTTPClient(event_stream(*frames))
    lag = Lag()
    watching = asyncio.create_task(lag.watch())
    await asyncio.sleep(0.01)
    began = time.process_time()
    async with swink.Client(http=http, providers=PROVIDERS, retry=False) as client:
        timeouts = swink.Timeouts(total=1)
        try:
            await client.complete(MODEL, "Hi", timeouts=timeouts, **options)
            ended = "done"
        except swink.SwinkError as error:
            ended = type(error).__name__
    await asyncio.sleep(0.01)
    watching.cancel()
    return lag.longest, time.process_time() - began, ended


async def run() -> None:
    """Print one line for each kind of answer and size."""
    await measured(fenced(100), {"type": Answer})
    print(f"{'answer':18} {'bytes':>9} longest hold   processor   ended")
    for kind in (fenced, stray_fragments):
        options = {"type": Answer} if kind is fenced else {}
        for size in SIZES:
            longest, spent, ended = await measured(kind(size), options)
            name = kind.__name__.replace("_", " ")
            shown = f"{longest * 1000:9.1f} ms {spent * 1000:8.1f} ms"
            print(f"{name:18} {size:9,} {shown}   {ended}", flush=True)


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()

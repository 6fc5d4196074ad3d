"""Print the processor time of reading the partial values of an answer that arrives in small pieces.

python -m lab.findings.partials
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import swink
from lab.findings.upstreams import chat_chunk, event_stream
from swink_testing.driver import MemoryHTTPClient

MODEL = "deepseek/deepseek-flash"
PROVIDERS = {"deepseek": {"api_key": "test", "base_url": "http://vendor.invalid"}}
SIZES = (16_000, 32_000, 64_000, 128_000)
PIECE = 60


@dataclass
class Numbers:
    """The type of the answer."""

    a: list[int]


async def read(size: int, partials: bool) -> tuple[float, float, int]:
    """Return the processor time, the longest step between two values, and their number."""
    text = '{"a":[' + "1," * (size // 2) + "1]}"
    frames = [
        chat_chunk({"content": text[start : start + PIECE]}) for start in range(0, len(text), PIECE)
    ]
    http = MemoryHTTPClient(event_stream(*frames, chat_chunk({}, "stop")))
    values = 0
    longest = 0.0
    async with swink.Client(http=http, providers=PROVIDERS) as client:
        began = time.process_time()
        stream = client.stream_answer(MODEL, "Hi", type=Numbers)
        if partials:
            before = began
            async for _ in stream.partials:
                values += 1
                now = time.process_time()
                longest = max(longest, now - before)
                before = now
        else:
            await stream.result()
        return time.process_time() - began, longest, values


async def run() -> None:
    """Print one line for each size."""
    print("characters   with partials   without   values   longest step")
    for size in SIZES:
        spent, longest, values = await read(size, True)
        without, _, _ = await read(size, False)
        shown = f"{spent * 1000:10.0f} ms {without * 1000:6.0f} ms {values:8}"
        print(f"{size:10,} {shown} {longest * 1000:11.1f} ms", flush=True)


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()

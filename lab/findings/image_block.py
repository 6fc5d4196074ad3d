"""Print how long a call with pictures holds the event loop before anything is sent.

    python -m lab.findings.image_block

Ten pictures of 3 MB.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time

import swink
from lab.findings.held_loop import Lag
from swink_testing.driver import MemoryHTTPClient

PICTURES = 10
BYTES = 3_000_000
MODEL = "openai/gpt-5.4-mini"


async def run() -> None:
    """Print the time to make the messages, the time to make the call, and the longest hold."""
    data = base64.b64encode(os.urandom(BYTES)).decode()
    providers = {"openai": {"api_key": "test"}}
    async with swink.Client(http=MemoryHTTPClient(), providers=providers) as client:
        client.stream(MODEL, "Hi")
        lag = Lag()
        watching = asyncio.create_task(lag.watch())
        await asyncio.sleep(0.05)
        began = time.process_time()
        messages = [
            swink.UserMessage([swink.ImageBlock(swink.Base64Source("image/png", data))])
            for _ in range(PICTURES)
        ]
        made = time.process_time()
        lag.longest = 0.0
        client.stream(MODEL, messages)
        called = time.process_time()
        await asyncio.sleep(0.01)
        watching.cancel()
    print(f"{PICTURES} messages with a picture: {(made - began) * 1000:.1f} ms to make,", end=" ")
    print(f"{(called - made) * 1000:.1f} ms in Client.stream()")
    print(f"longest hold of the loop: {lag.longest * 1000:.1f} ms")


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()

"""Print whether calls that are cancelled, abandoned or shared end cleanly.

    python -m lab.findings.cancelled_calls

A cancelled call keeps the text that arrived, frees its connection and its task, and can be closed
again.
"""

from __future__ import annotations

import asyncio
import gc
import os
import pickle
import warnings
from typing import Any

import swink
from lab.findings.upstreams import MODELS, providers, verdict
from lab.vendor import Vendor
from lab.vendor.writer import Script

MODEL = MODELS["claude"]


def descriptors() -> int:
    """Return the number of open descriptors."""
    return len(os.listdir("/proc/self/fd"))


def ended(stream: swink.EventStream) -> bool:
    """Return whether a stream was cancelled after some text."""
    return stream.message.stop_reason == "aborted" and bool(stream.message.text)


async def read(stream: swink.EventStream) -> None:
    """Read a stream to its end."""
    async for _ in stream:
        pass


async def deadline(client: swink.Client) -> None:
    """Put a timeout of asyncio around a stream."""
    for closing in (True, False):
        stream = client.stream(MODEL, "Hi")
        try:
            async with asyncio.timeout(0.3):
                if closing:
                    async with stream:
                        await read(stream)
                await read(stream)
        except TimeoutError:
            pass
        await stream.aclose()
        where = "with" if closing else "without"
        verdict(ended(stream), f"a timeout {where} `async with` keeps the text")


async def siblings(client: swink.Client) -> None:
    """Let one task of a group fail beside ten streams."""

    async def fail() -> None:
        await asyncio.sleep(0.2)
        raise KeyError("sibling")

    streams = [client.stream(MODEL, "Hi") for _ in range(10)]
    try:
        async with asyncio.TaskGroup() as group:
            for stream in streams:
                group.create_task(read(stream))
            group.create_task(fail())
        verdict(False, "a failed sibling ends the group")
    except* KeyError:
        verdict(True, "a failed sibling ends the group")
    for stream in streams:
        await stream.aclose()


async def abandoned(client: swink.Client) -> None:
    """Break off twenty loops, and drop the streams."""
    gc.collect()
    await asyncio.sleep(0.3)
    before = descriptors()
    tasks = len(asyncio.all_tasks())
    for _ in range(20):
        async for _ in client.stream(MODEL, "Hi"):
            break
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0.2)
    left = descriptors() - before
    verdict(left <= 4, "dropped streams free their connections", f"{left} descriptors more")
    more = len(asyncio.all_tasks()) - tasks
    verdict(more <= 1, "dropped streams leave no task", f"{more} tasks more")


async def shared(client: swink.Client) -> None:
    """Read a stream twice, and close it from ten tasks."""
    stream = client.stream(MODEL, "Hi")
    reader = asyncio.create_task(read(stream))
    await asyncio.sleep(0.2)
    try:
        await read(stream)
        verdict(False, "a second reader is refused")
    except RuntimeError:
        verdict(True, "a second reader is refused")
    closing = [stream.aclose() for _ in range(10)]
    await asyncio.wait_for(asyncio.gather(*closing, reader, return_exceptions=True), 5)
    verdict(ended(stream), "ten tasks may close one stream")


async def cancelled_closing(client: swink.Client) -> None:
    """Cancel whoever closes a stream, at several moments."""
    right = True
    for delay in (0.0, 0.0005, 0.001, 0.002):
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(read(stream))
        await asyncio.sleep(0.2)
        closer = asyncio.create_task(stream.aclose())
        await asyncio.sleep(delay)
        closer.cancel()
        reader.cancel()
        await asyncio.gather(closer, reader, return_exceptions=True)
        await asyncio.wait_for(stream.aclose(), 5)
        right = right and ended(stream)
    verdict(right, "a cancelled close is finished by the next one")


async def every_step(client: swink.Client) -> None:
    """Cancel a call after each of the first steps of the event loop."""
    reasons: set[str] = set()
    for steps in range(60):
        stream = client.stream(MODEL, "Hi")
        reader = asyncio.create_task(read(stream))
        for _ in range(steps):
            await asyncio.sleep(0)
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)
        await stream.aclose()
        reasons.add(str(stream.message.stop_reason))
    verdict(reasons == {"aborted"}, "a call may be cancelled at any step", f"{sorted(reasons)}")


async def kept(client: swink.Client, vendor: Vendor) -> None:
    """Pickle an answer, and let a tool raise an exception that has no text."""
    vendor.state.scripts.append(Script((({"text": "Hello."},),)))
    message = await client.complete(MODEL, "Hi")
    copied: Any = pickle.loads(pickle.dumps(message))
    verdict(copied == message, "an answer survives pickle")

    class Wordless(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def look() -> str:
        """Look."""
        raise Wordless

    call = {"call": "look", "arguments": {}}
    vendor.state.scripts.clear()
    vendor.state.scripts.extend(Script(((call,), ({"text": "Done."},))).split())
    try:
        async with client.run(MODEL, "Hi", tools=[look]) as run:
            async for _ in run:
                pass
        verdict(True, "an exception of a tool without a text is reported to the model")
    except Exception as error:
        subject = "an exception of a tool without a text is reported to the model"
        verdict(isinstance(error, swink.SwinkError), subject, type(error).__name__)


async def execute() -> None:
    """Run all parts against a slow vendor."""
    async with Vendor(tokens_per_second=40) as vendor:
        async with swink.Client(providers=providers(vendor), retry=False) as client:
            for part in (deadline, siblings, abandoned, shared, cancelled_closing, every_step):
                await part(client)
        vendor.state.scripts.clear()
    async with Vendor() as quick, swink.Client(providers=providers(quick)) as client:
        await kept(client, quick)


def main() -> None:
    """Run the program."""
    warnings.simplefilter("ignore")
    asyncio.run(execute())


if __name__ == "__main__":
    main()

"""Ways to call a model many times, each in a separate process, which may not have swink.

    python lab/benchmarks/batch_loops.py WAY URL CALLS CONCURRENCY DELTAS

requests that many answers of that many pieces of text, or as long as `recorded` ones, writes each
answer as a line, and prints calls per second, the CPU time of a call in microseconds, and the peak
memory in megabytes, as JSON. A way that ends in `+uvloop` runs on that event loop, and one of
swink's that ends in `+httptools` on that HTTP client.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

MODEL = "short-{}"
"""The benchmark server's answer in one write: that many pieces."""

UVLOOP = "+uvloop"

HTTPTOOLS = "+httptools"

Ask = Callable[[int], Awaitable[str]]


async def in_a_loop(ask: Ask, calls: int, concurrency: int, output: Path) -> None:
    """Ask so often with a semaphore, as people do."""
    semaphore = asyncio.Semaphore(concurrency)
    with output.open("w") as file:

        async def one(number: int) -> None:
            async with semaphore:
                text = await ask(number)
            file.write(json.dumps({"id": number, "text": text}) + "\n")

        await asyncio.gather(*map(one, range(calls)))


async def aiohttp_loop(url: str, calls: int, concurrency: int, output: Path) -> None:
    """Ask with bare aiohttp and read the stream by hand."""
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": "Bearer x"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def ask(number: int) -> str:
            text = ""
            async with session.post(f"{url}/chat/completions", json=body(number)) as response:
                response.raise_for_status()
                async for raw in response.content:
                    line = raw.decode().strip()
                    if line.startswith("data: ") and line != "data: [DONE]":
                        for choice in json.loads(line[6:])["choices"]:
                            text += choice["delta"].get("content") or ""
            return text

        await in_a_loop(ask, calls, concurrency, output)


async def openai_loop(url: str, calls: int, concurrency: int, output: Path) -> None:
    """Ask with the vendor's client."""
    import openai

    async with openai.AsyncOpenAI(base_url=url, api_key="x") as client:

        async def ask(number: int) -> str:
            stream: Any = await client.chat.completions.create(**body(number))
            parts = [c.delta.content or "" async for chunk in stream for c in chunk.choices]
            return "".join(parts)

        await in_a_loop(ask, calls, concurrency, output)


async def litellm_loop(url: str, calls: int, concurrency: int, output: Path) -> None:
    """Ask with litellm's `acompletion`."""
    import litellm

    async def ask(number: int) -> str:
        asked = {**body(number), "model": f"openai/{MODEL}"}
        stream: Any = await litellm.acompletion(api_base=url, api_key="x", **asked)
        parts = [c.delta.content or "" async for chunk in stream for c in chunk.choices]
        return "".join(parts)

    await in_a_loop(ask, calls, concurrency, output)


def _http() -> Any:
    """Return the HTTP client of swink; `None` is the default one."""
    if not USES_HTTPTOOLS:
        return None
    from swink_transport_httptools import HttptoolsClient

    return HttptoolsClient()


USES_HTTPTOOLS = False


async def swink_loop(url: str, calls: int, concurrency: int, output: Path) -> None:
    """Ask with swink's client, in the same loop."""
    from swink import Client

    own = {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}
    async with Client(providers=own, http=_http()) as client:

        async def ask(number: int) -> str:
            return (await client.complete(f"openai/{MODEL}", f"row {number}")).text

        await in_a_loop(ask, calls, concurrency, output)


async def swink_batch(url: str, calls: int, concurrency: int, output: Path) -> None:
    """Ask with swink-batch: limits, journal and all."""
    from swink_batch import run

    rows = ({"prompt": f"row {number}"} for number in range(calls))
    own = {"openai": {"base_url": url, "api_key": "x", "api": "chat"}}
    client = {"providers": own, "http": _http()}
    tally = await run(f"openai/{MODEL}", rows, output, concurrency=concurrency, client=client)
    assert tally.answered == calls, tally


WAYS = {
    "aiohttp": aiohttp_loop,
    "swink": swink_loop,
    "swink-batch": swink_batch,
    "openai": openai_loop,
    "litellm": litellm_loop,
}


def body(number: int) -> dict[str, Any]:
    """Return the request body."""
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"row {number}"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def main() -> None:
    """Ask, and print what it took."""
    global MODEL, USES_HTTPTOOLS
    way, url, calls, concurrency = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    MODEL = MODEL.format(sys.argv[5])
    run = asyncio.run
    if way.endswith(UVLOOP):
        import uvloop

        way, run = way.removesuffix(UVLOOP), uvloop.run
    if way.endswith(HTTPTOOLS):
        way, USES_HTTPTOOLS = way.removesuffix(HTTPTOOLS), True
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "answers.jsonl"
        run(WAYS[way](url, 20, 4, Path(folder) / "warm.jsonl"))
        began, cpu = time.perf_counter(), time.process_time()
        run(WAYS[way](url, calls, concurrency, output))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answered = len(output.read_bytes().splitlines())
    assert answered == calls, f"{answered} answers to {calls} calls"
    print(json.dumps({"rate": calls / seconds, "cpu": cpu / calls * 1e6, "memory": peak}))


if __name__ == "__main__":
    main()

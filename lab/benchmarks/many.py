"""Many streams at a time, and what one call waits: `python -m lab.benchmarks.many [--json FILE]`.

1,000 streams of 200 deltas at 50 a second, as from as many models: wall time, CPU and memory of the
client's process. And calls one after the other on a warm connection: the CPU of an answer of one
delta, and how long the first content takes to come. Each contender runs in processes of its own, in
turns, and a ratio to the floor is taken within a turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from lab.benchmarks.resident import resident
from lab.benchmarks.rounds import server
from lab.benchmarks.server import expected_text

CALLS = 300


def _body(model: str) -> dict[str, Any]:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    return {"model": model, "messages": [{"role": "user", "content": "hi"}], **options}


class Floor:
    """A bare aiohttp loop that decodes with orjson."""

    async def __aenter__(self) -> Floor:
        connector = aiohttp.TCPConnector(limit=0)
        self._session = aiohttp.ClientSession(connector=connector)
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._session.close()

    async def read(self, url: str, model: str) -> tuple[str, float]:
        """Return an answer's text, and the moment of its first content."""
        parts: list[str] = []
        rest, first = b"", 0.0
        head = {"Authorization": "Bearer sk-bench"}
        url = f"{url}/chat/completions"
        async with self._session.post(url, json=_body(model), headers=head) as response:
            async for data in response.content.iter_any():
                *frames, rest = (rest + data).split(b"\n\n")
                for frame in frames:
                    if frame == b"data: [DONE]" or not (said := orjson.loads(frame[6:])["choices"]):
                        continue
                    if text := said[0]["delta"].get("content"):
                        first = first or time.perf_counter()
                        parts.append(text)
        return "".join(parts), first


class Swink:
    """swink through its public API."""

    async def __aenter__(self) -> Swink:
        import swink_core

        self._swink: Any = swink_core
        self._client: Any = swink_core.Client()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self._client.aclose()

    async def read(self, url: str, model: str) -> tuple[str, float]:
        """Return an answer's text, and the moment of its first content."""
        parts: list[str] = []
        first, delta, own = 0.0, self._swink.TextDelta, {"base_url": url, "api_key": "sk-bench"}
        async with self._client.stream(f"openai/{model}", "hi", **own) as stream:
            async for event in stream:
                if type(event) is delta:
                    first = first or time.perf_counter()
                    parts.append(event.delta)
        return "".join(parts), first


CONTENDERS: dict[str, Any] = {"floor": Floor, "swink": Swink}


async def _streams(contender: Any, url: str, count: int) -> dict[str, float]:
    most = 0.0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, resident())
            await asyncio.sleep(0.2)

    watching = asyncio.create_task(watch())
    wall, cpu = time.perf_counter(), time.process_time()
    read = await asyncio.gather(*(contender.read(url, "model-200") for _ in range(count)))
    took = time.perf_counter() - wall, time.process_time() - cpu
    watching.cancel()
    assert all(text == expected_text(200) for text, _ in read)
    return {"wall s": took[0], "CPU s": took[1], "MB": most}


async def _calls(contender: Any, url: str) -> dict[str, float]:
    waits = []
    for _ in range(CALLS // 10):
        await contender.read(url, "short-1")
    cpu = time.process_time()
    for _ in range(CALLS):
        began = time.perf_counter()
        _, first = await contender.read(url, "short-1")
        waits.append(first - began)
    spent = time.process_time() - cpu
    return {
        "CPU us a call": spent / CALLS * 1e6,
        "first content ms": statistics.median(waits) * 1e3,
    }


async def _contend(name: str, url: str, streams: int) -> dict[str, float]:
    async with CONTENDERS[name]() as contender:
        calls = await _calls(contender, url)
        return {**calls, **await _streams(contender, url, streams)}


def measure(rounds: int, streams: int) -> dict[str, list[dict[str, float]]]:
    """Return the figures of each contender, one mapping a round."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTENDERS}
    for _ in range(rounds):
        for name, rows in found.items():
            with server() as url:
                run = [sys.executable, "-m", "lab.benchmarks.many", "--of", name, url, str(streams)]
                rows.append(json.loads(subprocess.run(run, capture_output=True, check=True).stdout))
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="python -m lab.benchmarks.many", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures to FILE")
    parser.add_argument("--of", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.of:
        name, url, streams = options.of
        print(json.dumps(asyncio.run(_contend(name, url, int(streams)))))
        return
    found = measure(options.rounds, options.streams)
    for figure in found["floor"][0]:
        floor, ours = ([row[figure] for row in found[name]] for name in ("floor", "swink"))
        ratio = statistics.median(a / b for a, b in zip(ours, floor, strict=True))
        values = f"{statistics.median(floor):10.2f}{statistics.median(ours):10.2f}"
        print(f"{figure:18}{values}{ratio:8.2f}x")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Measure the gateway's cost of the clients' protocols: `python -m lab.benchmarks.gateway`.

200 streams at a time, each as slow as a model writes, go through the gateway in swink's own
protocol (`/v1/stream`) and in each of the others, which may cost at most 1.3 times as much. It is
the CPU time of the gateway's process that counts; the upstream and the clients are others. The
protocols take turns within a round, in an order that rotates, and a ratio is taken within a round,
as in `lab.benchmarks.run`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import subprocess
import sys
import time
from typing import Any

import aiohttp

import swink_core as swink
from lab.benchmarks.ratios import spread, within_rounds
from lab.benchmarks.rounds import server as upstream
from swink_gateway.serving.server import Gateway

LIMIT = 1.3
STREAMS = 200
MODEL = "openai/live-60"
HI = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}], "stream": True}

REQUESTS: dict[str, tuple[str, dict[str, Any], bytes]] = {
    "native": ("/v1/stream", HI, b'"type":"done"'),
    "chat": ("/v1/chat/completions", HI, b"[DONE]"),
    "messages": ("/v1/messages", {**HI, "max_tokens": 99}, b"message_stop"),
    "responses": (
        "/v1/responses", {"model": MODEL, "input": "Hi", "stream": True}, b"response.completed",
    ),
    "gemini": (
        f"/v1beta/models/{MODEL}:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}, b'"finishReason":"STOP"',
    ),
    "ollama": ("/api/chat", HI, b'"done":true'),
}  # fmt: skip
"""Where each protocol asks, what, and how its answer ends."""


async def ask(session: aiohttp.ClientSession, base: str, protocol: str) -> None:
    """Read one stream to its end."""
    path, body, end = REQUESTS[protocol]
    async with session.post(base + path, json=body) as response:
        data = await response.read()
    assert end in data, data[-300:]


async def clients(base: str) -> None:
    """Ask in the protocol that each line of stdin names, and print a line when all have read."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        while protocol := (await asyncio.to_thread(sys.stdin.readline)).strip():
            await asyncio.gather(*(ask(session, base, protocol) for _ in range(STREAMS)))
            print(protocol, flush=True)


async def measure(rounds: int) -> dict[str, list[float]]:
    """Return milliseconds of CPU a stream, one a round, by protocol."""
    found: dict[str, list[float]] = {name: [] for name in REQUESTS}
    own = {"openai": {"api_key": "k", "api": "chat"}}
    with upstream() as base:
        own["openai"]["base_url"] = base
        async with swink.Client(providers=own) as client, Gateway(client) as gateway:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "lab.benchmarks.gateway", "--clients", gateway.url,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            order = list(REQUESTS)
            for number in range(-1, rounds):
                for name in order:
                    gc.collect()
                    start = time.process_time()
                    process.stdin.write(name.encode() + b"\n")
                    await process.stdout.readline()
                    spent = time.process_time() - start
                    if number >= 0:  # the first round warms up
                        found[name].append(spent / STREAMS * 1e3)
                order = [*order[1:], order[0]]
            process.stdin.close()
            await process.wait()
    return found


def main() -> None:
    """Measure, print, and with `--check` fail beyond the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="exit code 1 beyond the limit")
    parser.add_argument("--clients", metavar="URL", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.clients:
        asyncio.run(clients(asked.clients))
        return
    found = asyncio.run(measure(asked.rounds))
    beyond = []
    for name, spent in found.items():
        ratios = within_rounds(spent, found["native"])
        ratio = statistics.median(ratios)
        beyond += [name] if ratio > LIMIT else []
        print(
            f"{name:10} {statistics.median(spent):5.2f} ms a stream  {ratio:.2f}  {spread(ratios)}"
        )
    if asked.check and beyond:
        sys.exit(f"beyond {LIMIT} times /v1/stream: {', '.join(beyond)}")


if __name__ == "__main__":
    main()

"""Print the pauses between the pieces of a stream, directly and through the gateway.

    python -m lab.findings.silence           # print them
    python -m lab.findings.silence --write   # and write the table of docs/reference/real-clients.md

The vendor writes a token every 20 ms. Streams without the gateway and through it take turns, so
that all of them have the same load of the machine.
"""

from __future__ import annotations

import asyncio
import itertools
import statistics
import sys
import time
from typing import Any

from lab.clients.table import write_pauses
from lab.findings.upstreams import KEY, MODELS, Stand, stand

HI = [{"role": "user", "content": "Hi"}]

PROTOCOLS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HI, "stream": True}),
    "messages": ("/v1/messages", {"messages": HI, "stream": True, "max_tokens": 99}),
    "responses": ("/v1/responses", {"input": "Hi", "stream": True}),
    "gemini": (
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    ),
    "ollama": ("/api/chat", {"messages": HI}),
}
"""Path and body of a request, by the client's protocol."""

ROUNDS = 3

DIRECT = {
    "chat": "gpt-4.1",
    "messages": "claude-haiku-4-5",
    "responses": "gpt-5.4-mini",
    "gemini": "gemini-3.6-flash",
    "ollama": "qwen3",
}


async def pauses(at: Stand, base: str, protocol: str, model: str) -> list[float]:
    """Return the milliseconds between the reads of one answer."""
    path, body = PROTOCOLS[protocol]
    at.play([{"tokens": 60}])
    headers = {"Authorization": f"Bearer {KEY}", "x-api-key": KEY, "x-goog-api-key": KEY}
    headers["anthropic-version"] = "2023-06-01"
    url = base + path.replace("{model}", model)
    times: list[float] = []
    async with at.session.post(url, json={**body, "model": model}, headers=headers) as response:
        async for _ in response.content.iter_any():
            times.append(time.monotonic())
    return [(after - before) * 1000 for before, after in itertools.pairwise(times)]


async def run(is_written: bool) -> None:
    """Print one line for each protocol, directly and by the vendor behind the gateway."""
    table: list[list[str]] = []
    print(f"{'protocol':10} {'upstream':10} pieces   median     95 %      most")
    async with stand(tokens_per_second=50) as at:
        for protocol in PROTOCOLS:
            rows = [("direct", at.vendor.url, DIRECT[protocol])]
            rows.extend((model, at.gateway, model) for model in MODELS)
            read: dict[str, list[float]] = {name: [] for name, _, _ in rows}
            for _ in range(ROUNDS):
                for name, base, model in rows:
                    read[name] += await pauses(at, base, protocol, model)
            medians = [statistics.median(found or [0.0]) for found in read.values()]
            table.append([protocol, *(f"{median:.1f}" for median in medians)])
            for name, times in read.items():
                found = sorted(times) or [0.0]
                usual = found[int(len(found) * 0.95)]
                shown = f"{statistics.median(found):6.1f} ms {usual:6.1f} ms {found[-1]:6.1f} ms"
                print(f"{protocol:10} {name:10} {len(found) + 1:6} {shown}", flush=True)
    if is_written:
        write_pauses(["directly", *MODELS], table)


def main() -> None:
    """Run the program."""
    asyncio.run(run("--write" in sys.argv[1:]))


if __name__ == "__main__":
    main()

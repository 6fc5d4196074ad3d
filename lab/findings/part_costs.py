"""Print the instructions that limits, guards and routes add to a request of the gateway.

    python -m lab.findings.part_costs

The gateway without them has the same key. valgrind counts the instructions of the gateway's
process; the vendor and the client are other processes. The prompt has 2 or 2,000 words.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import ExitStack
from typing import Any

import swink
from lab.benchmarks.instructions import count
from lab.findings.gateways import key_of, owner
from lab.findings.upstreams import providers
from swink_gateway.policy.config import Source
from swink_gateway.serving.server import Gateway

MODEL = "openai/gpt-5.4-mini"
OTHER = "anthropic/claude-haiku-4-5"

WARM = 20
"""The requests before those that are counted."""

COUNTED = 200

CLIENT = """
import http.client, json, sys
port, key, model, words, times = sys.argv[1:]
said = "Say hello." if words == "2" else "the quick brown fox " * (int(words) // 4)
body = json.dumps({"model": model, "messages": [{"role": "user", "content": said}]})
headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
connection = http.client.HTTPConnection("127.0.0.1", int(port))
for _ in range(int(times)):
    connection.request("POST", "/v1/chat/completions", body, headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 200, response.status
"""

LIMITS = {
    "requests_per_minute": 1_000_000,
    "tokens_per_minute": 1_000_000_000,
    "streams": 100,
    "dollars_per_day": 1_000.0,
}

PATTERN = r"\b\d(?:[ -]?\d){12,18}\b"

GUARDS = f"""
[guards.cards]
redact = ['{PATTERN}']
[guards.words]
block = ["project zephyr"]
"""

ROUTES = f"""
[routes.best]
tiers = [["{MODEL}"], ["{OTHER}"]]
"""

# the name of a part, its configuration, and the requested model
PARTS: dict[str, tuple[str, str]] = {
    "bare": (owner("ann"), MODEL),
    "limits": (owner("ann", **LIMITS), MODEL),
    "guards": (owner("ann", guards=["cards", "words"]) + GUARDS, MODEL),
    "routes": (owner("ann") + ROUTES, "best"),
}

WORDS = (2, 2_000)


class _Address:
    """The address of a vendor in another process, as `providers` reads it."""

    def __init__(self, url: str) -> None:
        self.url = url


async def serve(part: str, vendor: str, words: str, requests: int) -> None:
    """Answer the requests of a client, in the process whose instructions are counted."""
    text, model = PARTS[part]
    own: Any = providers(_Address(vendor))  # type: ignore[arg-type]  # only its address is read
    async with (
        swink.Client(providers=own) as client,
        Gateway(client, config=Source("", text).config({})) as gateway,
    ):
        port = gateway.url.rpartition(":")[2]
        said = [port, key_of("ann"), model, words, str(WARM + requests)]
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, *said)
        assert await process.wait() == 0


def counted(part: str, vendor: str, words: int) -> float:
    """Return the instructions of one request."""
    run = ("-m", "lab.findings.part_costs", "--serve", part, vendor, str(words))
    return (count((*run, str(COUNTED))) - count((*run, "0"))) / COUNTED


def main() -> None:
    """Start a vendor, and count."""
    if sys.argv[1:2] == ["--serve"]:
        part, vendor, length, requests = sys.argv[2:]
        asyncio.run(serve(part, vendor, length, int(requests)))
        return
    with ExitStack() as stack:
        command = [sys.executable, "-m", "lab.vendor"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(running.kill)
        assert running.stdout is not None
        vendor = running.stdout.readline().strip()
        counted("bare", vendor, 2)  # compiles the modules
        for words in WORDS:
            found = {part: counted(part, vendor, words) for part in PARTS}
            for part, instructions in found.items():
                share = instructions / found["bare"] - 1
                print(f"{words:5} words, {part:8} {instructions:12,.0f} {share:+7.1%}", flush=True)


if __name__ == "__main__":
    main()

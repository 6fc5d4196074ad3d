"""Print the instructions that limits, guards and routes add to a request of the gateway.

    python -m lab.findings.part_costs

The gateway without them has the same key. valgrind counts the instructions of the gateway's
process; the vendor and the client are other processes. The prompt has 2 or 2,000 words.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import swink
from lab.benchmarks.instructions import count
from lab.findings.gateways import key_of, owner
from lab.findings.ledger_cost import CLIENT, HELLO, MODEL, WARM, Address
from lab.findings.upstreams import providers, vendor_process
from swink_gateway.policy.config import Source
from swink_gateway.serving.server import Gateway

OTHER = "anthropic/claude-haiku-4-5"

COUNTED = 200
"""The requests that are counted."""

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

PROMPTS = {"2": HELLO, "2,000": "the quick brown fox " * 500}
"""The prompts, by the number of their words."""


async def serve(part: str, vendor: str, words: str, requests: int) -> None:
    """Answer the requests of a client, in the process whose instructions are counted."""
    text, model = PARTS[part]
    own: Any = providers(Address(vendor))  # type: ignore[arg-type]  # only its address is read
    async with (
        swink.Client(providers=own) as client,
        Gateway(client, config=Source("", text).config({})) as gateway,
    ):
        port = gateway.url.rpartition(":")[2]
        said = [port, key_of("ann"), model, str(WARM + requests), PROMPTS[words]]
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, *said)
        assert await process.wait() == 0


def counted(part: str, vendor: str, words: str) -> float:
    """Return the instructions of one request."""
    run = ("-m", "lab.findings.part_costs", "--serve", part, vendor, words)
    return (count((*run, str(COUNTED))) - count((*run, "0"))) / COUNTED


def main() -> None:
    """Start a vendor, and count."""
    if sys.argv[1:2] == ["--serve"]:
        part, vendor, words, requests = sys.argv[2:]
        asyncio.run(serve(part, vendor, words, int(requests)))
        return
    with vendor_process() as vendor:
        counted("bare", vendor, "2")  # compiles the modules
        for words in PROMPTS:
            found = {part: counted(part, vendor, words) for part in PARTS}
            for part, instructions in found.items():
                share = instructions / found["bare"] - 1
                print(f"{words:>5} words, {part:8} {instructions:12,.0f} {share:+7.1%}", flush=True)


if __name__ == "__main__":
    main()

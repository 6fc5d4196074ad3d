"""Print which part of swink takes which share of a call's CPU time: a profile by stages.

    python -m lab.benchmarks.shares [--samples 4000]

A timer interrupts the process after each millisecond of CPU time. Each sample is added to the stage
of the innermost function that belongs to one of `STAGES`. The answers of the calls come from
memory, so only the gateway's profile contains an HTTP client and the work of the kernel.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import swink
from lab.benchmarks.conversations import PROTOCOLS, PROVIDERS, Answering, conversation, read
from lab.findings.gateways import key_of, owner
from lab.findings.ledger_cost import CLIENT, HELLO, MODEL, Address
from lab.findings.upstreams import providers, vendor_process
from swink_gateway.policy.config import Source
from swink_gateway.serving.server import Gateway

STAGES = (
    ("HTTP client or server (aiohttp)", ("/aiohttp/", "/multidict/", "/yarl/")),
    ("gateway", ("/swink_gateway/",)),
    ("checks of the conversation and its options", (
        "swink_core/conversation.py", "swink_core/vocabulary/checks.py",
        "swink_core/vocabulary/messages.py", "swink_core/vocabulary/option",
    )),
    ("the model's rules", ("providers/rules.py", "providers/features.py", "providers/contexts.py")),
    ("conversion of messages and tools", (
        "converter.py", "conversion.py", "schemas.py", "providers/media.py", "providers/shapes.py",
        "swink_core/vocabulary/structs.py",
    )),
    ("decoding the answer to events", (
        "framing/", "parser.py", "providers/source.py", "providers/writer.py",
        "providers/open_blocks.py", "providers/tool_calls.py", "vocabulary/events.py",
    )),
    ("the message, usage and price", (
        "streaming/builder.py", "vocabulary/outcome.py", "vocabulary/prices.py",
        "vocabulary/charges.py", "vocabulary/models.py", "plugins/catalog.py",
    )),
    ("the request: plan, credentials, headers, body", (
        "swink_core/providers/", "swink_provider_", "plugins/attempt.py",
    )),
    ("hooks, stream, time limits", (
        "swink_core/plugins/", "swink_core/streaming/", "swink_core/client.py", "/pluggy/",
    )),
    ("event loop and its clients", ("/asyncio/", "selectors.py")),
)  # fmt: skip
"""Each stage, with parts of module paths. A module belongs to the first stage that matches."""

OTHER = "other"

WARM = 50
"""The calls before the samples."""


def stage_of(path: str) -> str | None:
    """Return the stage of a module, or None for a module of no stage."""
    return next((name for name, parts in STAGES if any(part in path for part in parts)), None)


class Profile:
    """Counts the samples of each stage."""

    def __init__(self) -> None:
        self.samples: Counter[str] = Counter()
        self._stages: dict[str, str | None] = {}

    def take(self, signal_number: int, frame: FrameType | None) -> None:
        """Count a sample, as the handler of the timer's signal."""
        while frame is not None:
            path = frame.f_code.co_filename
            if path not in self._stages:
                self._stages[path] = stage_of(path)
            stage = self._stages[path]
            if stage is not None:
                self.samples[stage] += 1
                return
            frame = frame.f_back
        self.samples[OTHER] += 1

    @contextmanager
    def taking(self) -> Iterator[None]:
        """Take samples while the block runs."""
        before = signal.signal(signal.SIGPROF, self.take)
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)

    def shares(self) -> dict[str, float]:
        """Return the share of each stage, the largest first."""
        return {stage: found / self.samples.total() for stage, found in self.samples.most_common()}


async def of_calls(messages: int, samples: int) -> Profile:
    """Profile calls with so many messages; with more than one, the calls have eight tools."""
    protocol, profile = PROTOCOLS["chat"], Profile()
    context = conversation(messages) if messages > 1 else swink.Context.of("hi")
    async with swink.Client(http=Answering(protocol), providers=PROVIDERS) as client:
        for _ in range(WARM):
            await read(client, protocol, context)
        with profile.taking():
            while profile.samples.total() < samples:
                await read(client, protocol, context)
    return profile


async def of_gateway(vendor: str, samples: int) -> Profile:
    """Profile requests of a key to a gateway; the client and the vendor are other processes."""
    own: Any = providers(Address(vendor))  # type: ignore[arg-type]  # only its address is read
    config, profile = Source("", owner("ann")).config({}), Profile()
    async with swink.Client(providers=own) as client, Gateway(client, config=config) as gateway:
        port = gateway.url.rpartition(":")[2]

        async def ask(requests: int) -> None:
            said = [port, key_of("ann"), MODEL, str(requests), HELLO]
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, *said)
            assert await process.wait() == 0

        await ask(WARM)
        with profile.taking():
            while profile.samples.total() < samples:
                await ask(500)
    return profile


def report(name: str, profile: Profile) -> None:
    """Print a profile."""
    print(f"\n{name}, {profile.samples.total()} samples")
    for stage, share in profile.shares().items():
        print(f"{share:7.1%} {stage}", flush=True)


def main() -> None:
    """Start a vendor, and print the profiles."""
    parser = argparse.ArgumentParser(prog="lab.benchmarks.shares", description=__doc__)
    parser.add_argument("--samples", type=int, default=4_000, help="for each profile")
    samples = parser.parse_args().samples
    report("3 deltas", asyncio.run(of_calls(1, samples)))
    report("31 messages with 8 tools", asyncio.run(of_calls(31, samples)))
    with vendor_process() as vendor:
        report("a request of the gateway", asyncio.run(of_gateway(vendor, samples)))


if __name__ == "__main__":
    main()

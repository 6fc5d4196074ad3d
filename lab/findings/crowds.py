"""Print how a gateway of two workers bears slow streams, fast clients, and clients that leave.

    python -m lab.findings.crowds

The memory of the workers, the processor time of a request, and the streams that are still counted
as open at the end.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Sequence

import aiohttp

from lab.findings.gateways import MODEL, Gateway, gateway, key_of, owner, verdict
from lab.findings.measured import children, megabytes, seconds
from lab.vendor import Vendor

SLOW = 1000
FAST = 32
TIMES = 20
LEAVING = 300
STARTED = 2.0
"""Seconds until all workers serve."""

AUTHORIZATION = {"Authorization": f"Bearer {key_of('bob')}"}


def marked(tokens: int, pace: float = 0.0) -> str:
    """Return a prompt whose answer has so many tokens, `pace` seconds apart."""
    script: dict[str, object] = {"parts": [{"tokens": tokens}]}
    if pace:
        script["fault"] = {"kind": "slow", "seconds": pace}
    return f"[[vendor {json.dumps(script)}]]"


class Crowd:
    """Clients of one gateway, and how their streams ended."""

    def __init__(self, served: Gateway, session: aiohttp.ClientSession) -> None:
        self.served = served
        self.session = session
        self.ended: Counter[str] = Counter()

    @property
    def workers(self) -> list[int]:
        """Return the processes that serve."""
        return children(self.served.process.pid)

    async def stream(self, prompt: str, leave_after: int | None = None) -> None:
        """Read one stream, and hang up after so many lines."""
        body = {
            "model": MODEL,
            "stream": True,
            "messages": [{"role": "user", "content": prompt}],
        }
        url = f"{self.served.url}/v1/chat/completions"
        try:
            async with self.session.post(url, json=body, headers=AUTHORIZATION) as response:
                if response.status != 200:
                    self.ended[str(response.status)] += 1
                    return
                lines = 0
                last = b""
                async for line in response.content:
                    lines += 1
                    if leave_after is not None and lines >= leave_after:
                        self.ended["left"] += 1
                        return
                    last = line if line.strip() else last
                done = last.startswith(b"data: [DONE]")
                self.ended["done" if done else "cut"] += 1
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            self.ended[type(error).__name__] += 1

    async def gather(self, prompts: Sequence[tuple[str, int | None]]) -> tuple[float, float]:
        """Read streams at once; return the seconds, and those of the workers' processors."""
        self.ended.clear()
        used = seconds(self.workers)
        began = time.monotonic()
        await asyncio.gather(*(self.stream(prompt, leave) for prompt, leave in prompts))
        return time.monotonic() - began, seconds(self.workers) - used


async def run(served: Gateway) -> None:
    """Print one line for each crowd."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await asyncio.sleep(STARTED)
        crowd = Crowd(served, session)
        print(f"       workers take {megabytes(crowd.workers)} MB")
        took, used = await crowd.gather([(marked(20, 0.5), None)] * SLOW)
        text = f"{SLOW} slow streams: {dict(crowd.ended)} in {took:.1f} s, processor {used:.1f} s"
        verdict(crowd.ended["done"] == SLOW, f"{text}, {megabytes(crowd.workers)} MB")
        took = used = 0.0
        done = 0
        for _ in range(TIMES):
            wall, processor = await crowd.gather([(marked(200), None)] * FAST)
            took += wall
            used += processor
            done += crowd.ended["done"]
        count = TIMES * FAST
        each = 1000 * used / count
        text = f"{count} fast streams: {count / took:.0f} a second, processor {each:.1f} ms each"
        verdict(done == count, f"{text}, {megabytes(crowd.workers)} MB")
        chance = random.Random(1)
        leaving = [(marked(100, 0.02), chance.randint(1, 120)) for _ in range(LEAVING)]
        await crowd.gather(leaving)
        print(f"       {LEAVING} that leave: {dict(crowd.ended)}, {megabytes(crowd.workers)} MB")
        await asyncio.sleep(2)
        streams = (await asyncio.to_thread(served.spending, "bob"))["streams"]
        verdict(streams == 0, f"{streams} streams are counted as open when all have ended")


def main() -> None:
    """Run the program."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.environ.setdefault("NO_PROXY", "127.0.0.1")
    arguments = ("--workers", "2", "--streams", str(SLOW))
    with Vendor() as vendor, gateway(vendor, owner("bob"), *arguments) as served:
        asyncio.run(run(served))


if __name__ == "__main__":
    main()

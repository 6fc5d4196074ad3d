"""Print how long one client's failures close a model to other clients of the gateway.

    python -m lab.findings.one_callers_failure

A rate limit for one second, and an empty answer, which a vendor documents as legal.
"""

from __future__ import annotations

import asyncio
import time

from lab.findings.upstreams import Answered, Stand, stand, verdict
from lab.vendor import Fault

PATIENCE = 45.0
"""Seconds after which the second client gives up."""


async def ask(at: Stand) -> Answered:
    """Make one short request."""
    body = {"model": "claude", "max_tokens": 99, "messages": [{"role": "user", "content": "Hi"}]}
    return await at.post("/v1/messages", body)


async def until_served(at: Stand, subject: str, allowed: float) -> None:
    """Ask as another client until it is served, and judge the wait."""
    began = time.monotonic()
    refusals: list[str] = []
    while (answer := await ask(at)).status != 200 and time.monotonic() - began < PATIENCE:
        refusals.append(f"{answer.status} Retry-After {answer.headers.get('Retry-After')}")
        await asyncio.sleep(1)
    waited = time.monotonic() - began
    detail = f"{waited:.1f} s" + (f"; at first {refusals[0]}" if refusals else "")
    verdict(waited < allowed, subject, detail)


async def run() -> None:
    """Print the requests that one client caused, and the wait of another, for each failure."""
    async with stand() as at:
        at.vendor.state.faults.add(Fault("rate_limit", retry_after=1, times=100))
        answer = await ask(at)
        print(f"rate limit: one request of client A, status {answer.status},", end=" ")
        print(f"{at.requests} requests at the vendor")
        at.vendor.state.faults.clear()
        await until_served(at, "client B is served within 2 s after a rate limit of 1 s", 2)
    async with stand() as at:
        at.play(*[[] for _ in range(30)])
        answers = [await ask(at) for _ in range(3)]
        statuses = [each.status for each in answers]
        verdict(statuses == [200] * 3, "an empty answer is an answer", f"statuses {statuses}")
        verdict(at.requests == 3, "three requests are sent once each", f"{at.requests} sent")
        at.vendor.state.scripts.clear()
        await until_served(at, "client B is served at once after empty answers", 1)


def main() -> None:
    """Run the program."""
    asyncio.run(run())


if __name__ == "__main__":
    main()

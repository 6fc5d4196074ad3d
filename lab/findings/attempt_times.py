"""Print the times of attempts that observers see: in a fallback chain, and behind a slow observer.

    python -m lab.findings.attempt_times

The first model fails after two words, and the second is slow. Both observers must see the time of
the second model's first token, not the time since the call began or the time in a queue.
"""

from __future__ import annotations

import asyncio
import time

import swink
from lab.findings.gateways import verdict
from swink_observers.background import Background

CHAIN = ("echo/fail-overloaded-after-2", "echo/slow")

WRITING = 0.05
"""Seconds that the slow observer takes for each attempt."""

NEAR = 0.01
"""Seconds by which both observers may differ."""


class Times:
    """Keeps, for each attempt, the seconds to its first token and to its end."""

    def __init__(self, writing: float = 0.0) -> None:
        self.rows: list[tuple[str, float, float]] = []
        self._writing = writing

    @swink.hookimpl
    def on_event(self, event: swink.Event, call: swink.Call) -> None:
        """Keep the times of an attempt that ends."""
        if not isinstance(event, swink.Retry | swink.Done | swink.Error):
            return
        attempt = call.attempt
        if attempt.started_at is not None and attempt.ended_at is not None:
            first = attempt.first_event_at or attempt.ended_at
            row = (call.model.id, first - attempt.started_at, attempt.ended_at - attempt.started_at)
            self.rows.append(row)
        time.sleep(self._writing)


async def watch(inline: Times, slow: Times) -> None:
    """Make eight calls of a chain, seen by both observers."""
    retries = {swink.StreamErrorKind.OVERLOADED: 1}
    policy = swink.RetryPolicy(retries=retries, base=0.01, restart_after_output=True)
    async with Background(slow) as behind, swink.Client(plugins=[inline, behind]) as client:
        calls = [client.complete(CHAIN, "one two three", retry=policy) for _ in range(8)]
        await asyncio.gather(*calls)


def main() -> None:
    """Print the times of each kind of attempt, and compare the observers."""
    inline = Times()
    slow = Times(WRITING)
    asyncio.run(watch(inline, slow))
    for name, seen in (("inline", inline), ("background", slow)):
        for model, first, all in sorted(seen.rows)[:: max(1, len(seen.rows) // 4)]:
            print(f"       {name:10} {model:24} first token {first:.3f} s, all {all:.3f} s")
    verdict(len(inline.rows) == len(slow.rows), f"{len(inline.rows)} and {len(slow.rows)} attempts")
    pairs = zip(sorted(inline.rows), sorted(slow.rows), strict=False)
    apart = max(
        abs(a - b) for left, right in pairs for a, b in zip(left[1:], right[1:], strict=True)
    )
    verdict(apart <= NEAR, f"the observers differ by at most {apart:.4f} s")
    firsts = [first for model, first, _ in inline.rows if model == "slow"]
    verdict(min(firsts) > 0.005, f"the second model's first token comes after {min(firsts):.3f} s")


if __name__ == "__main__":
    main()

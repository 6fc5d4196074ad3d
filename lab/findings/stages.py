"""Print which modules the processor time of an in-memory call is spent in.

    python -m lab.findings.stages [PROVIDER/MODEL] [TURNS] [SECONDS]

Samples are counted for the innermost module of swink, so the time of a library counts for its
caller.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import Counter
from types import FrameType

from lab.findings.call_cost import CALLS, MODEL, conversation, milliseconds

INTERVAL = 0.0005
SHOWN = 20
FOLDERS = ("swink_core/", "swink_gateway/", "swink_provider_", "swink_testing/", "swink/")


class Sampler:
    """Counts samples by module while it is entered. Only the main thread can be sampled."""

    def __init__(self) -> None:
        self.samples: Counter[str] = Counter()

    def __enter__(self) -> Sampler:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        return self

    def __exit__(self, *raised: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        if frame is not None and frame.f_code.co_filename.endswith("selectors.py"):
            return
        while frame is not None:
            path = frame.f_code.co_filename
            for folder in FOLDERS:
                at = path.rfind("/" + folder)
                if at >= 0 and "site-packages" not in path:
                    self.samples[path[at + 1 :]] += 1
                    return
            frame = frame.f_back
        self.samples["event loop and libraries"] += 1

    def show(self, milliseconds: float) -> None:
        """Print the share of each module, and its part of so many milliseconds."""
        total = max(1, self.samples.total())
        for module, samples in self.samples.most_common(SHOWN):
            share = samples / total
            print(f"{module:60} {share:6.1%} {share * milliseconds:8.3f} ms")


def main() -> None:
    """Print one line for each module."""
    model = sys.argv[1] if len(sys.argv) > 1 else MODEL
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 4.0
    messages = conversation(turns)
    asyncio.run(milliseconds(model, messages))
    spent: list[float] = []
    until = time.process_time() + seconds
    with Sampler() as sampler:
        while time.process_time() < until:
            spent.append(asyncio.run(milliseconds(model, messages)))
    mean = sum(spent) / len(spent)
    print(f"{model}, {len(messages)} messages: {mean:.3f} ms a call, {len(spent) * CALLS} calls")
    sampler.show(mean)


if __name__ == "__main__":
    main()

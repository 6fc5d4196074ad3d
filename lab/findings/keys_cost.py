"""Print how the processor time of checking a key grows with the number of keys.

    python -m lab.findings.keys_cost

The time should not depend on the number of keys, least of all for a request that has none of them.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping

from swink_gateway.policy.access import Guard

COUNTS = (5, 500, 2000, 10_000)

REQUESTS = 100


def microseconds(guard: Guard, headers: Mapping[str, str]) -> float:
    """Measure the processor time of one request's keys."""
    began = time.process_time()
    for _ in range(REQUESTS):
        guard.owner(headers, {})
    return (time.process_time() - began) / REQUESTS * 1e6


def main() -> None:
    """Print one line for each number of keys."""
    print(f"{'keys':>8} {'a right key':>14} {'four wrong keys':>18}")
    wrong = {
        "Authorization": "Bearer a",
        "x-api-key": "b",
        "x-goog-api-key": "c",
        "api-key": "d",
    }
    for count in COUNTS:
        guard = Guard()
        names = [f"key-{number}" for number in range(count)]
        guard.owners = {hashlib.sha256(name.encode()).digest(): name for name in names}
        right = microseconds(guard, {"Authorization": "Bearer key-3"})
        print(f"{count:>8} {right:>11.0f} us {microseconds(guard, wrong):>15.0f} us")


if __name__ == "__main__":
    main()

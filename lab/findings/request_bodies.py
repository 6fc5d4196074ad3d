"""Print how much memory request bodies take in a gateway: one long text, and many small objects.

    python -m lab.findings.request_bodies [BODIES]

A limit in bytes says little about memory, because parsed objects take many times their text.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lab.findings.gateways import MODEL, Gateway, gateway, key_of, owner
from lab.vendor import Vendor

BODIES = 3
"""How many are sent at once."""

SIZE = 24_000_000
"""Bytes of each body, approximately."""


def memory(process: int, field: str) -> int:
    """Return a figure of a process's memory in bytes, from Linux's /proc."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"/proc/{process}/status has no {field}")


def one_text() -> bytes:
    """Return a body that is one long text."""
    messages = [{"role": "user", "content": "x" * SIZE}]
    return json.dumps({"model": MODEL, "messages": messages}).encode()


def small_objects() -> bytes:
    """Return a body of many small objects."""
    objects = [{f"k{number}": "v" * 40} for number in range(SIZE // 56)]
    messages = [{"role": "user", "content": "x"}]
    return json.dumps({"model": MODEL, "messages": messages, "metadata": {"a": objects}}).encode()


def send(served: Gateway, body: bytes, count: int) -> Counter[int | None]:
    """Send a body so many times at once, and count the statuses."""

    def ask(_: int) -> int | None:
        return served.ask("/v1/chat/completions", key_of("bob"), body, seconds=100).status

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(ask, range(count)))


def main() -> None:
    """Print one line for each kind of body."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else BODIES
    for make in (one_text, small_objects):
        body = make()
        with Vendor() as vendor, gateway(vendor, owner("bob")) as served:
            process = served.process.pid
            before = memory(process, "VmRSS")
            found = send(served, body, count)
            most = memory(process, "VmHWM")
            grown = (most - before) / len(body) / count
            ended = "ended" if served.process.poll() is not None else "running"
            print(
                f"{make.__name__.replace('_', ' '):14} {count} of {len(body) / 1e6:.0f} MB: "
                f"{dict(found)}, at most {most / 1e6:,.0f} MB of memory, "
                f"{grown:.1f} bytes for each byte sent, {ended}",
                flush=True,
            )


if __name__ == "__main__":
    main()

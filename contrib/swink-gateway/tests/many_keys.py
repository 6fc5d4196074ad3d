"""How much of a Redis server many keys in many processes take: `many_keys.py --keys 10000`.

Each process knows all keys. The CPU of the server is measured without requests, and then while all
processes together make some requests a second for keys drawn at random. The exit code is 1 if
either is more than 5 % of a core.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

from swink_gateway.policy.limits import Allowance, Refusal
from swink_gateway.policy.limits.redis import RedisLedger
from swink_test_helpers.redis_server import RedisServer

MOST = 0.05


def _run(url: str, keys: int, rate: float, marks: Any) -> None:
    asyncio.run(_keep(url, keys, rate, marks))


async def _keep(url: str, keys: int, rate: float, marks: Any) -> None:
    ledger = RedisLedger(url)
    names = [f"key{number}" for number in range(keys)]
    allowance = Allowance(requests=1000, dollars_a_day=5.0)
    await ledger.spending(names)
    await asyncio.to_thread(marks.wait)  # all know all
    await asyncio.to_thread(marks.wait)  # it was measured
    waits = []
    while not marks.broken:
        await asyncio.sleep(random.expovariate(rate))
        began = time.monotonic()
        admitted = await ledger.admit(random.choice(names), allowance, 100, 0.001)
        waits.append(time.monotonic() - began)
        assert not isinstance(admitted, Refusal)
        await ledger.settle(admitted, 120, 0.0012)
    waits.sort()
    print(f"admitted after {1000 * waits[len(waits) // 2]:.1f} ms, at most {1000 * waits[-1]:.0f}")


def _cpu(pid: int) -> float:
    """Return the seconds of CPU that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def _measured(what: str, pid: int, seconds: float) -> float:
    before = _cpu(pid)
    time.sleep(seconds)
    part = (_cpu(pid) - before) / seconds
    print(f"{100 * part:5.1f} % of a core of the server {what}", flush=True)
    return part


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--rate", type=float, default=50.0, help="requests a second, together")
    parser.add_argument("--seconds", type=float, default=20.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder), keeps=False)
        server.start()
        pid = server.pid
        try:
            marks = multiprocessing.Barrier(asked.processes + 1)
            rate = asked.rate / asked.processes
            processes = [
                multiprocessing.Process(target=_run, args=(server.url, asked.keys, rate, marks))
                for _ in range(asked.processes)
            ]
            for process in processes:
                process.start()
            marks.wait()
            time.sleep(3)
            parts = [_measured("without requests", pid, asked.seconds)]
            marks.wait()
            parts.append(_measured(f"at {asked.rate:g} requests a second", pid, asked.seconds))
            marks.abort()
            for process in processes:
                process.join()
        finally:
            server.kill()
    return int(max(parts) > MOST)


if __name__ == "__main__":
    sys.exit(main())

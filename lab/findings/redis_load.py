"""Print how busy Redis is with the keys of idle gateways, and how long their script takes.

    python -m lab.findings.redis_load [keys [workers]]

Each worker asks Redis every second what all keys with limits have used, so the load grows with both
numbers.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from redis import Redis

from lab.findings.gateways import MODEL, gateway, owner, verdict
from lab.findings.measured import children, seconds
from lab.findings.redis_budgets import start
from lab.vendor import Vendor
from swink_gateway.policy.limits import scripts

PREFIX = "swink:gateway:"
SETTLED = 3.0
IDLE = 8.0

SCRIPTS = ((50, 20, 8), (500, 5, 8), (500, 20, 8), (500, 60, 8), (2000, 20, 8))
"""Keys, seconds of the last minute in which each was used, and processes."""

KINDS = ("seconds", "dollars", "streams", "leases")
"""The records of a key in Redis, in the order of the arguments of the script."""


def look(redis: Redis, keys: int, active: int, processes: int) -> float:
    """Return the milliseconds of one look at all keys."""
    redis.flushall()
    now = int(time.time())
    pipe = redis.pipeline()
    names = [f"m{number}" for number in range(processes)]
    pipe.zadd(PREFIX + "members", dict.fromkeys(names, now))
    asked = [PREFIX + "members"]
    for number in range(keys):
        at = {kind: f"{PREFIX}{kind}:k{number}" for kind in KINDS}
        used: dict[Any, Any] = {f"{kind}{now - back}": 1 for back in range(active) for kind in "rt"}
        pipe.hset(at["seconds"], mapping=used)
        pipe.hset(at["dollars"], mapping={"2026-11-23": "1.0", "2026-11": "3.0"})
        pipe.hset(at["leases"], mapping=dict.fromkeys(names, "[1,1,1,0.1,0.1]"))
        pipe.hset(at["leases"], "allowance", '["60","200000","8","5","60"]')
        pipe.hset(at["streams"], mapping=dict.fromkeys(names, 0))
        asked += at.values()
    pipe.execute()
    script = redis.register_script(scripts.LOOK)
    took = []
    for _ in range(5):
        began = time.perf_counter()
        script(keys=asked, args=["", "m0", *[0] * (5 * keys)])
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)


def process_of(redis: Redis) -> int:
    """Return the process of a Redis server."""
    return int(redis.info("server")["process_id"])


def idle(folder: Path, redis: Redis, keys: int, workers: int) -> None:
    """Send a request with each key, then measure Redis and the workers when idle."""
    names = [f"k{number}" for number in range(keys)]
    limits = {"requests_per_minute": 60, "tokens_per_minute": 200_000, "dollars_per_day": 5}
    store = f'[store]\nengine = "redis"\nurl = "unix://{folder / "s"}"\n'
    configuration = store + "".join(owner(name, **limits) for name in names)
    with (
        Vendor() as vendor,
        gateway(vendor, configuration, "--workers", str(workers)) as served,
        ThreadPoolExecutor(20) as pool,
    ):
        time.sleep(SETTLED)
        ask = [pool.submit(served.chat, name, MODEL, "Hi", max_tokens=16) for name in names]
        found = Counter(each.result().status for each in ask)
        verdict(found[200] == keys, f"{keys} keys, {workers} workers, each key asks: {dict(found)}")
        time.sleep(SETTLED)
        server = [process_of(redis)]
        serving = children(served.process.pid)
        before = seconds(server), seconds(serving)
        time.sleep(IDLE)
        used = seconds(server) - before[0], seconds(serving) - before[1]
        share = [round(100 * each / IDLE) for each in used]
        print(f"       idle: Redis {share[0]} % of a processor, the workers together {share[1]} %")
        took = []
        for name in names[:40]:
            began = time.perf_counter()
            served.chat(name, MODEL, "Hi", max_tokens=16)
            took.append(1000 * (time.perf_counter() - began))
        median = statistics.median(took)
        print(f"       a request then: median {median:.0f} ms, slowest {max(took):.0f} ms")
        lost = sum("cannot be reached" in line for line in served.log)
        verdict(lost == 0, f"the log has {lost} lines about a Redis that cannot be reached")


def main() -> None:
    """Run both measurements."""
    keys = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        running = start(folder)
        redis = Redis(unix_socket_path=str(folder / "s"))
        try:
            idle(folder, redis, keys, workers)
            for count, active, processes in SCRIPTS:
                took = look(redis, count, active, processes)
                share = took * processes / 10
                text = f"{count} keys, used in {active} seconds each, {processes} processes:"
                print(f"{text} {took:.0f} ms a look, {share:.0f} % of Redis at a look a second")
        finally:
            running.kill()
            running.wait()


if __name__ == "__main__":
    main()

"""Print the processor time that the rows of the ledger add to a request, for each store.

    python -m lab.findings.ledger_cost [ROUNDS]

The gateway runs in this process, the vendor and the client in others, so that the time of the
process, its threads included, is the gateway's. Each round has each gateway once.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack, ExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Any

import swink
from lab.findings import redis_budgets
from lab.findings.gateways import key_of, owner
from lab.findings.upstreams import providers
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import Ledger, MemoryLedger
from swink_gateway.policy.limits import sqlite as sqlite_ledger
from swink_gateway.policy.limits.files import open_rows
from swink_gateway.policy.limits.redis import RedisLedger
from swink_gateway.policy.limits.writer import RowWriter
from swink_gateway.serving.server import Gateway

ROUNDS = 30
REQUESTS = 40
MODEL = "openai/gpt-5.4-mini"

CLIENT = """
import http.client, json, sys
port, key, model, times = sys.argv[1:]
body = json.dumps({"model": model, "messages": [{"role": "user", "content": "Say hello."}]})
headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
connection = http.client.HTTPConnection("127.0.0.1", int(port))
for _ in range(int(times)):
    connection.request("POST", "/v1/chat/completions", body, headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 200, response.status
"""


class _Address:
    """The address of a vendor in another process, as `providers` reads it."""

    def __init__(self, url: str) -> None:
        self.url = url


class WithoutRows(sqlite_ledger.SQLiteLedger):
    """A SQLite ledger whose rows are not written."""


async def measured(rounds: int, vendor: _Address, redis: Path, folder: Path) -> None:
    """Print the median of each gateway."""
    config = Source("", owner("ann", dollars_per_day=1000.0)).config({})
    url = f"unix://{redis / 's'}"
    ledgers: dict[str, Ledger] = {
        "memory, no rows": MemoryLedger(),
        "memory": MemoryLedger(rows=RowWriter()),
        "sqlite, no rows": WithoutRows(folder / "without"),
        "sqlite": sqlite_ledger.SQLiteLedger(folder / "with"),
        "redis, no rows": RedisLedger(url),
        "redis": RedisLedger(url, rows=RowWriter(partial(open_rows, folder / "rows"))),
    }
    changed: Any = sqlite_ledger
    write = changed.write
    spent: dict[str, list[float]] = {name: [] for name in ledgers}
    async with AsyncExitStack() as stack:
        made: dict[str, Gateway] = {}
        for name, ledger in ledgers.items():
            await stack.enter_async_context(aclosing(ledger))
            own = providers(vendor)  # type: ignore[arg-type]  # its address is all that is read
            client = await stack.enter_async_context(swink.Client(providers=own))
            gateway = Gateway(client, config=config, ledger=ledger)
            made[name] = await stack.enter_async_context(gateway)
        for number in range(rounds + 1):
            for name, gateway in made.items():
                is_without = isinstance(ledgers[name], WithoutRows)
                changed.write = (lambda *_: None) if is_without else write
                port = gateway.url.rpartition(":")[2]
                words = [port, key_of("ann"), MODEL, str(REQUESTS)]
                began = time.process_time()
                process = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, *words)
                assert await process.wait() == 0
                if number:  # the first one warms up
                    spent[name].append((time.process_time() - began) / REQUESTS * 1000)
        changed.write = write
    medians = {name: statistics.median(found) for name, found in spent.items()}
    for name, median in medians.items():
        bare = medians[f"{name.partition(',')[0]}, no rows"]
        print(f"{name:16} {median:.3f} ms a request, {median / bare - 1:+.1%}", flush=True)


def main() -> None:
    """Start a vendor and Redis, and measure."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with ExitStack() as stack:
        redis = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = redis_budgets.start(redis)
        stack.callback(server.kill)
        command = [sys.executable, "-m", "lab.vendor"]
        vendor = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(vendor.kill)
        assert vendor.stdout is not None
        url = vendor.stdout.readline().strip()
        asyncio.run(measured(rounds, _Address(url), redis, folder))


if __name__ == "__main__":
    main()

"""Print the instructions that the ledger adds to a request of the gateway, for each store.

    python -m lab.findings.ledger_cost [STORE …]

valgrind counts those of the gateway's process, its threads included. The vendor, the client and
Redis are other processes. Rows that are written in batches are counted for batches of 50 requests
(half a second at 100 requests a second) and of one.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from contextlib import ExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Any

from swink_gateway.policy.limits.files import open_rows

import swink
from lab.benchmarks.instructions import count
from lab.findings import redis_budgets
from lab.findings.gateways import key_of, owner
from lab.findings.upstreams import providers
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import Ledger, MemoryLedger, writer
from swink_gateway.policy.limits import connection as redis_connection
from swink_gateway.policy.limits import redis as redis_ledger
from swink_gateway.policy.limits import sqlite as sqlite_ledger
from swink_gateway.serving.server import Gateway

BATCHES = (50, 1)
"""Requests whose rows are written together."""

WARM = 20
"""Requests before those that are counted."""

COUNTED = 100

MODEL = "openai/gpt-5.4-mini"

STORES = ("memory", "sqlite", "redis")

FOREVER = 3600.0

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


def ledger_of(store: str, place: str, rows: writer.RowWriter | None) -> Ledger:
    """Open a ledger, without rows if `rows` is `None`."""
    match store:
        case "memory":
            return MemoryLedger(rows=rows)
        case "sqlite":
            if rows is None:
                changed: Any = sqlite_ledger
                changed.write = lambda *_: None
            return sqlite_ledger.SQLiteLedger(Path(place))
        case _:
            return redis_ledger.RedisLedger(place, rows=rows)


async def serve(store: str, place: str, rows: str, vendor: str, batch: int, requests: int) -> None:
    """Answer the requests of a client, in the process whose instructions are counted.

    Rows are written after each `batch` of requests.
    """
    slow: Any = redis_connection, redis_ledger, writer
    slow[0].ANSWER_SECONDS = slow[1].SIGN_SECONDS = slow[2].FLUSH_SECONDS = FOREVER
    config = Source("", owner("ann", dollars_per_day=1000.0)).config({})
    written = None
    if rows:
        written = writer.RowWriter(None if store == "memory" else partial(open_rows, Path(rows)))
    own = providers(_Address(vendor))  # type: ignore[arg-type]  # only its address is read
    ledger = ledger_of(store, place, written)
    async with (
        aclosing(ledger),
        swink.Client(providers=own) as client,
        Gateway(client, config=config, ledger=ledger) as gateway,
    ):
        words = [gateway.url.rpartition(":")[2], key_of("ann"), MODEL]
        for times in (WARM, *[batch] * (requests // batch)):
            command = [sys.executable, "-c", CLIENT, *words, str(times)]
            process = await asyncio.create_subprocess_exec(*command)
            assert await process.wait() == 0
            if written is not None:
                await written.flush()


def counted(store: str, place: str, rows: str, vendor: str, batch: int) -> float:
    """Return the instructions of one request."""
    run = ("-m", "lab.findings.ledger_cost", "--serve", store, place, rows, vendor, str(batch))
    return (count((*run, str(COUNTED))) - count((*run, "0"))) / COUNTED


def main() -> None:
    """Start a vendor and Redis, and count."""
    if sys.argv[1:2] == ["--serve"]:
        store, place, rows, vendor, batch, requests = sys.argv[2:]
        asyncio.run(serve(store, place, rows, vendor, int(batch), int(requests)))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = redis_budgets.start(folder)
        stack.callback(server.kill)
        command = [sys.executable, "-m", "lab.vendor"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        stack.callback(running.kill)
        assert running.stdout is not None
        vendor = running.stdout.readline().strip()
        for store in sys.argv[1:] or STORES:
            bare_place, full_place = (
                (f"unix://{folder / 's'}",) * 2
                if store == "redis"
                else (str(folder / "bare"), str(folder / "full"))
            )
            counted(store, full_place, str(folder / "rows"), vendor, 1)  # compiles the modules
            for batch in BATCHES:
                bare = counted(store, bare_place, "", vendor, batch)
                full = counted(store, full_place, str(folder / "rows"), vendor, batch)
                text = f"{full:,.0f} instructions a request, {full / bare - 1:+.1%} by the rows"
                print(f"{store:7} batches of {batch:2}: {text}", flush=True)


if __name__ == "__main__":
    main()

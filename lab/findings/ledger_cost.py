"""Print the instructions that the ledger adds to a request of the gateway, for each store.

    python -m lab.findings.ledger_cost [STORE …]

valgrind counts those of the gateway's process, its threads included. The vendor, the client and
Redis are other processes. Rows that are written in batches are counted for batches of 50 requests
(half a second at 100 requests a second) and of one.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import ExitStack, aclosing
from functools import partial
from pathlib import Path
from typing import Any

import swink
from lab.benchmarks.instructions import count
from lab.findings import redis_budgets
from lab.findings.gateways import key_of, owner
from lab.findings.upstreams import providers, vendor_process
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import Entry, Ledger, MemoryLedger, writer
from swink_gateway.policy.limits import connection as redis_connection
from swink_gateway.policy.limits import redis as redis_ledger
from swink_gateway.policy.limits import sql as sql_ledger
from swink_gateway.policy.limits.postgres import PostgresLedger
from swink_gateway.policy.limits.sqlite import SQLiteLedger, open_rows
from swink_gateway.serving.server import Gateway
from swink_test_helpers.postgres_server import PostgresServer

BATCHES = (50, 1)
"""Requests whose rows are written together."""

WARM = 20
"""Requests before those that are counted."""

COUNTED = 100

HELLO = "Say hello."

MODEL = "openai/gpt-5.4-mini"

STORES = ("memory", "sqlite", "postgres", "redis")

BATCHED = ("memory", "redis")
"""Stores whose rows are written beside them."""

FOREVER = 3600.0

CLIENT = """
import http.client, json, sys
port, key, model, times, said = sys.argv[1:]
body = json.dumps({"model": model, "messages": [{"role": "user", "content": said}]})
headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
connection = http.client.HTTPConnection("127.0.0.1", int(port))
for _ in range(int(times)):
    connection.request("POST", "/v1/chat/completions", body, headers)
    response = connection.getresponse()
    response.read()
    assert response.status == 200, response.status
"""


class Address:
    """The address of a vendor in another process, as `providers` reads it."""

    def __init__(self, url: str) -> None:
        self.url = url


class Batched(writer.RowWriter):
    """Writes rows after so many requests instead of after a time."""

    def __init__(self, requests: int, connect: Any) -> None:
        super().__init__(connect)
        self._most = 2 * requests  # each request has a reservation and a charge
        self._puts = 0
        self._written: asyncio.Task[None] | None = None

    def put(self, entry: Entry) -> None:
        super().put(entry)
        self._puts += 1
        if self._puts % self._most == 0:
            self._written = asyncio.ensure_future(self.flush())


def ledger_of(store: str, place: str, rows: str, batch: int) -> Ledger:
    """Open a ledger; `rows` is the file beside a store, and empty for a ledger without rows."""
    if not rows:
        changed: Any = sql_ledger
        changed.write = lambda *_: None
    match store:
        case "memory":
            return MemoryLedger(rows=Batched(batch, None) if rows else None)
        case "sqlite":
            return SQLiteLedger(Path(place))
        case "postgres":
            return PostgresLedger(place)
        case _:
            written = Batched(batch, partial(open_rows, Path(rows))) if rows else None
            return redis_ledger.RedisLedger(place, rows=written)


async def serve(store: str, place: str, rows: str, vendor: str, batch: int, requests: int) -> None:
    """Answer the requests of a client, in the process whose instructions are counted."""
    slow: Any = redis_connection, redis_ledger, writer
    slow[0].ANSWER_SECONDS = slow[1].SIGN_SECONDS = slow[2].FLUSH_SECONDS = FOREVER
    config = Source("", owner("ann", dollars_per_day=1000.0)).config({})
    own = providers(Address(vendor))  # type: ignore[arg-type]  # only its address is read
    async with (
        aclosing(ledger_of(store, place, rows, batch)) as ledger,
        swink.Client(providers=own) as client,
        Gateway(client, config=config, ledger=ledger) as gateway,
    ):
        words = [gateway.url.rpartition(":")[2], key_of("ann"), MODEL, str(WARM + requests), HELLO]
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", CLIENT, *words)
        assert await process.wait() == 0


def counted(store: str, place: str, rows: str, vendor: str, batch: int) -> float:
    """Return the instructions of one request."""
    run = ("-m", "lab.findings.ledger_cost", "--serve", store, place, rows, vendor, str(batch))
    return (count((*run, str(COUNTED))) - count((*run, "0"))) / COUNTED


def main() -> None:
    """Start a vendor and Redis, and count."""
    if sys.argv[1:2] == ["--serve"]:
        store, place, rows, vendor, size, requests = sys.argv[2:]
        asyncio.run(serve(store, place, rows, vendor, int(size), int(requests)))
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = redis_budgets.start(folder)
        stack.callback(server.kill)
        vendor = stack.enter_context(vendor_process())
        rows = str(folder / "rows")
        for store in sys.argv[1:] or STORES:
            bare_place, full_place = str(folder / "bare"), str(folder / "full")
            if store == "postgres":
                postgres = PostgresServer()
                stack.callback(postgres.remove)
                postgres.start()
                bare_place, full_place = postgres.schema("bare"), postgres.schema("full")
            elif store == "redis":
                bare_place = full_place = f"unix://{folder / 's'}"
            counted(store, full_place, rows, vendor, 1)  # compiles the modules
            for batch in BATCHES if store in BATCHED else (1,):
                bare = counted(store, bare_place, "", vendor, batch)
                full = counted(store, full_place, rows, vendor, batch)
                text = f"{full:,.0f} instructions a request, {full / bare - 1:+.1%} by the rows"
                print(f"{store:8} batches of {batch:2}: {text}", flush=True)


if __name__ == "__main__":
    main()

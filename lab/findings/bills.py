"""Compare the gateway's ledger with the vendor's bill, over thousands of random calls.

    python -m lab.findings.bills [CALLS] [ENGINE …]

CALLS is the number for each engine. Calls differ in protocol, model, script of the prompt, length
and route. Clients hang up at any moment, half of them by a reset connection as killed ones do; the
vendor breaks answers and refuses requests; routes fall back and repeat; workers are killed. Engines
are `memory`, `sqlite`, `postgres` and `redis`. All but the first one have two gateways of two
workers that share it: in SQLite one file. Postgres is stopped now and then, and Redis loses all
data.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import random
import signal
import socket
import struct
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from os import kill
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from lab.findings import redis_budgets
from lab.findings.bills_compared import (
    Books,
    Made,
    Overcharges,
    check_budgets,
    check_estimates,
    check_output,
    compare,
    tag_of,
)
from lab.findings.gateways import OPERATOR, Gateway, gateway, key_of, owner
from lab.vendor import Vendor
from lab.vendor.faults import Schedule
from lab.vendor.record import Exchange
from swink_gateway.policy.limits import Entry, Query, Store, reading_rows
from swink_gateway.policy.limits.rows import entries_in
from swink_test_helpers.postgres_server import PostgresServer

CALLS = 5_000

ENGINES = ("memory", "sqlite", "postgres", "redis")
AT_ONCE = 24
KILL_CALLS = 400
"""Calls between two workers that are killed."""

STORE_CALLS = 1_400
"""Calls between two losses of the server of a store."""

AWAY_SECONDS = 2.0
"""For which the server is away."""

SETTLED = 4.0
"""Seconds until all processes have written what they know."""

PLAIN = ("ann", "bea", "cid")
"""Keys without a budget."""

BUDGETS = {f"tight{number}": 0.002 * (number + 1) for number in range(12)}
"""Keys with a budget that their calls exceed."""

MODELS = ("openai/gpt-5.4-mini", "anthropic/claude-haiku-4-5", "gemini/gemini-3.6-flash")

ROUTES = """
[routes.falls]
tiers = ["openai/gpt-5.4-mini", "anthropic/claude-haiku-4-5", "gemini/gemini-3.6-flash"]
[routes.repeats]
tiers = "openai/gpt-5.4-mini"
options = { retry = { retries = { overloaded = 3, network = 3, throttled = 3, protocol = 3 }, base = 0.01 } }
"""  # noqa: E501  # a table of TOML is one line

NAMES = (*MODELS, *MODELS, "falls", "falls", "repeats")


def _png(side: int) -> str:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    rows = (b"\0" + b"\x80" * 3 * side) * side
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


IMAGE = _png(64)

TEXTS = {
    "latin": "many words here ",
    "cjk": "東京の天気はどうですか。",
    "code": "def add(a: int) -> int:\n    return a + 1\n",
    "emoji": "👍🎉 ",
    "media": "what is this ",
}


def random_call(chance: random.Random, number: int) -> Made:
    """Draw a call."""
    kind = chance.choice([*TEXTS])
    tag = f"call-{number}"
    script = {"parts": [{"tokens": chance.choice([1, 5, 20, 80])}]}
    text = f"{tag} {TEXTS[kind] * chance.choice([1, 10, 40, 120])} [[vendor {json.dumps(script)}]]"
    key = chance.choice(PLAIN if chance.random() < 0.75 else [*BUDGETS])
    model = chance.choice(NAMES)
    stream = chance.random() < 0.7
    more: dict[str, Any] = {"model": model, "stream": stream}
    if chance.random() < 0.5:
        more["max_tokens"] = chance.choice([100, 300])
    protocol = chance.choice(["chat", "messages", "responses"])
    image = kind == "media"
    match protocol:
        case "chat":
            path = "/v1/chat/completions"
            url = {"url": f"data:image/png;base64,{IMAGE}"}
            parts: Any = [{"type": "text", "text": text}, {"type": "image_url", "image_url": url}]
            body = {**more, "messages": [{"role": "user", "content": parts if image else text}]}
        case "messages":
            path = "/v1/messages"
            source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
            parts = [{"type": "text", "text": text}, {"type": "image", "source": source}]
            body = {
                "max_tokens": 300, **more,
                "messages": [{"role": "user", "content": parts if image else text}],
            }  # fmt: skip
        case _:
            path = "/v1/responses"
            more.pop("max_tokens", None)
            url_of = f"data:image/png;base64,{IMAGE}"
            parts = [
                {"type": "input_text", "text": text},
                {"type": "input_image", "image_url": url_of},
            ]
            body = {**more, "input": [{"role": "user", "content": parts if image else text}]}
    leaves = None
    if chance.random() < 0.25:
        leaves = chance.choice([0.0, 0.002, 0.01, 0.03, 0.1, 0.3]) * chance.random() * 2
    resets = chance.random() < 0.5
    return Made(tag, key, kind, text, 0.0, body, path, leaves, resets)


async def send(session: aiohttp.ClientSession, url: str, made: Made) -> None:
    """Make a call, and leave when it says."""
    made.at = time.time()
    headers = {"Authorization": f"Bearer {key_of(made.key)}", "x-swink-tags": made.tag}
    try:
        async with (
            asyncio.timeout(made.leaves),
            session.post(url + made.path, json=made.body, headers=headers) as response,
        ):
            await response.read()
            made.status = response.status
    except TimeoutError:
        made.status = "left"
    except aiohttp.ClientError as error:
        made.status = type(error).__name__


async def drive(urls: Sequence[str], calls: Sequence[Made]) -> None:
    """Make all calls, so many at once."""
    waiting = iter(calls)

    async def one(sessions: Sequence[aiohttp.ClientSession], number: int) -> None:
        for made in waiting:
            await send(sessions[made.resets], urls[number % len(urls)], made)

    total = aiohttp.ClientTimeout(total=120)
    plain = aiohttp.TCPConnector(limit=0, force_close=True)
    resetting = aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=_resetting)
    async with (
        aiohttp.ClientSession(connector=plain, timeout=total) as session,
        aiohttp.ClientSession(connector=resetting, timeout=total) as abrupt,
    ):
        await asyncio.gather(*(one((session, abrupt), number) for number in range(AT_ONCE)))


def _resetting(address: Any) -> socket.socket:
    """Make a socket whose close resets the connection, as the end of a killed client may."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    made.setblocking(False)
    return made


def workers_of(served: Gateway) -> list[int]:
    """Return the processes below a gateway's own."""
    process = served.process.pid
    with suppress(OSError):
        return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
    return []


async def begun(calls: Sequence[Made], number: int) -> None:
    """Wait until so many of the calls have begun: a quick machine loses as much as a slow one."""
    while True:
        if sum(made.at > 0 for made in calls) >= number:
            return
        await asyncio.sleep(0.05)


async def kills(
    calls: Sequence[Made], gateways: Sequence[Gateway], chance: random.Random, at: list[float]
) -> None:
    """Kill a worker each time that `KILL_CALLS` more calls have begun, and note when."""
    for number in itertools.count(KILL_CALLS, KILL_CALLS):
        await begun(calls, number)
        workers = workers_of(chance.choice(gateways))
        if len(workers) > 1:
            at.append(time.time())
            kill(chance.choice(workers), signal.SIGKILL)


class Server(Protocol):
    """The server of a store."""

    def kill(self) -> None:
        """Stop it at once."""

    def start(self) -> None:
        """Start it again."""


class Redis:
    """A Redis server that keeps nothing on disk, so a kill loses all data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.start()

    def kill(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._process.wait()
        (self._folder / "s").unlink(missing_ok=True)

    def start(self) -> None:
        """Start the server without data."""
        self._process = redis_budgets.start(self._folder)


class Postgres:
    """A Postgres server, which keeps what it has committed."""

    def __init__(self) -> None:
        self._server = PostgresServer()
        self.url = self._server.url
        self.start()

    def kill(self) -> None:
        """Stop the server at once."""
        self._server.stop()

    def start(self) -> None:
        """Start the server with its data."""
        self._server.start()

    def remove(self) -> None:
        """Stop the server, and delete its data."""
        self._server.remove()


async def losses(calls: Sequence[Made], server: Server, at: list[float]) -> None:
    """Kill a server each time that `STORE_CALLS` more calls have begun, and note when."""
    for number in itertools.count(STORE_CALLS, STORE_CALLS):
        await begun(calls, number)
        at.append(time.time())
        server.kill()
        try:
            await asyncio.sleep(AWAY_SECONDS)
        finally:
            server.start()


def run(engine: str, calls: int, seed: int, folder: Path, overcharges: Overcharges) -> None:
    """Run the calls of an engine, and print a line for each fact."""
    chance = random.Random(seed)
    made = [random_call(chance, number) for number in range(calls)]
    killed: list[float] = []
    lost: list[float] = []
    with ExitStack() as stack:
        server: Server | None = None
        store = Store()
        match engine:
            case "sqlite":
                store = Store("sqlite", folder / "ledger")
            case "postgres":
                server = postgres = Postgres()
                stack.callback(postgres.remove)
                store = Store("postgres", url=postgres.url)
            case "redis":
                server = redis = Redis(folder)
                stack.callback(redis.kill)
                url = f"unix://{folder / 's'}"
                store = Store("redis", url=url, ledger=str(folder / "ledger"))
        fields = {"path": store.path, "url": store.url, "ledger": store.ledger}
        lines = [f'{name} = "{value}"' for name, value in fields.items() if value is not None]
        limits = "".join(owner(name, dollars_per_day=most) for name, most in BUDGETS.items())
        text = "\n".join([ROUTES, "[store]", f'engine = "{engine}"', *lines, ""])
        text += limits + "".join(map(owner, PLAIN))
        schedule = Schedule(seed, 0.12)
        vendor = stack.enter_context(
            Vendor(schedule=schedule, tokens_per_second=2_000, first_token=0.02)
        )
        workers, count = ((), 1) if engine == "memory" else (("--workers", "2"), 2)
        served = [stack.enter_context(gateway(vendor, text, *workers)) for _ in range(count)]

        async def all_calls() -> None:
            killing = [asyncio.ensure_future(kills(made, served, chance, killed))]
            if server is not None:
                killing.append(asyncio.ensure_future(losses(made, server, lost)))
            await drive([one.url for one in served], made)
            for task in killing:
                task.cancel()
            await asyncio.gather(*killing, return_exceptions=True)

        began = time.monotonic()
        asyncio.run(all_calls())
        seconds = time.monotonic() - began
        time.sleep(SETTLED)
        exchanges = vendor.state.record.of()
        reply = served[0].ask("/v1/spending", key_of(OPERATOR), seconds=60)
        spent = {row["key"]: row["dollars_today"] for row in json.loads(reply.body)["data"]}
        rows_in = reading_rows(store)
        if rows_in is None:
            reply = served[0].ask("/v1/spending/report?rows=true", key_of(OPERATOR), seconds=60)
            rows = [_entry(row) for row in json.loads(reply.body)["data"]]
        else:
            with rows_in as execute:
                rows = entries_in(execute, Query())
        audit = served[0].ask("/v1/spending/audit", key_of(OPERATOR), seconds=60)
    statuses = Counter(one.status for one in made)
    print(f"{engine}: {calls} calls in {seconds:.0f} s, {dict(statuses)}", flush=True)
    print(f"       {len(exchanges)} requests at the vendor, {len(rows)} rows")
    print(f"       {len(killed)} workers killed, the store {len(lost)} times")
    by_tag: dict[str, list[Exchange]] = defaultdict(list)
    tags = {one.tag: one for one in made}
    for each in exchanges:
        if (tag := tag_of(each)) in tags:
            by_tag[tag].append(each)
    rows_of: dict[str, list[Entry]] = defaultdict(list)
    for row in rows:
        rows_of[row.tags].append(row)
    books = Books(tags, by_tag, rows_of, killed, engine == "redis")
    compare(books, overcharges)
    check_estimates(rows, exchanges, tags)
    check_output(books)
    check_budgets(rows, spent, BUDGETS, lost, 2 * count)
    found = json.loads(audit.body)
    print(
        f"       the audit: {len(found['unsettled'])} rows of killed workers, "
        f"{len(found['differences'])} differences {found['differences'][:2]}",
        flush=True,
    )


def _entry(row: dict[str, Any]) -> Entry:
    at = datetime.fromisoformat(row["at"]).timestamp()
    return Entry(**{**row, "at": at, "estimated": int(row["estimated"])})


def main() -> None:
    """Print the facts of each engine, and the charges of all."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    overcharges = Overcharges()
    for number, engine in enumerate(sys.argv[2:] or ENGINES):
        with tempfile.TemporaryDirectory() as name:
            run(engine, calls, calls + number, Path(name), overcharges)
    overcharges.show()


if __name__ == "__main__":
    main()

"""Compare the gateway's ledger with the vendor's bill, over thousands of random calls.

    python -m lab.findings.bills [CALLS] [ENGINE …]

Calls differ in protocol, model, script of the prompt, length and route. Clients hang up at any
moment, the vendor breaks answers and refuses requests, routes fall back and repeat, and workers are
killed. Engines are `memory`, `sqlite` and `redis`; the last one has two gateways that share it, and
loses all data now and then.
"""

from __future__ import annotations

import asyncio
import base64
import json
import random
import signal
import statistics
import struct
import sys
import tempfile
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from datetime import datetime
from os import kill
from pathlib import Path
from typing import Any

import aiohttp

from lab.findings import redis_budgets
from lab.findings.gateways import OPERATOR, Gateway, gateway, key_of, owner, verdict
from lab.vendor import Vendor
from lab.vendor.faults import Schedule
from lab.vendor.record import Exchange
from swink_core import Context, StreamOptions
from swink_core.providers import prompt_of
from swink_gateway.policy.limits import Entry, Query
from swink_gateway.policy.limits.rows import RESERVED, entries_in, read_only, sqlite_execute

CALLS = 1_000
AT_ONCE = 24
KILL_SECONDS = 12.0
"""Between two workers that are killed."""

STORE_SECONDS = 50.0
"""Between two losses of Redis."""

AWAY_SECONDS = 2.0
"""For which Redis is away."""

SETTLED = 4.0
"""Seconds until all processes have written what they know."""

SHOWN = 5
"""Differing calls that are printed."""

SAME = 1e-6
"""Relative difference of two sums of the same prices."""

LOST_SECONDS = 1.0
"""For which a killed process may have lost rows, where the ledger is beside the store."""

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


@dataclass(slots=True)
class Made:
    """A call that was made, and what its client saw: a status, or when it left."""

    tag: str
    key: str
    kind: str
    text: str
    at: float = 0.0
    body: dict[str, Any] = field(repr=False, default_factory=dict)
    path: str = ""
    leaves: float | None = None
    status: int | str | None = None


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
    return Made(tag, key, kind, text, 0.0, body, path, leaves)


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

    async def one(session: aiohttp.ClientSession, number: int) -> None:
        for made in waiting:
            await send(session, urls[number % len(urls)], made)

    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=120)
    ) as session:
        await asyncio.gather(*(one(session, number) for number in range(AT_ONCE)))


def workers_of(served: Gateway) -> list[int]:
    """Return the processes below a gateway's own."""
    process = served.process.pid
    with suppress(OSError):
        return [*map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())]
    return []


async def kills(gateways: Sequence[Gateway], chance: random.Random, at: list[float]) -> None:
    """Kill a worker now and then, and note when."""
    while True:
        await asyncio.sleep(KILL_SECONDS)
        workers = workers_of(chance.choice(gateways))
        if len(workers) > 1:
            at.append(time.time())
            kill(chance.choice(workers), signal.SIGKILL)


class Store:
    """A Redis server that keeps nothing on disk, so a kill loses all data."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = redis_budgets.start(folder)

    def kill(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._process.wait()
        (self._folder / "s").unlink(missing_ok=True)

    async def losses(self, at: list[float]) -> None:
        """Kill the server now and then, start it again without data, and note when."""
        while True:
            await asyncio.sleep(STORE_SECONDS)
            at.append(time.time())
            self.kill()
            try:
                await asyncio.sleep(AWAY_SECONDS)
            finally:
                self._process = redis_budgets.start(self._folder)


# -- the comparison --------------------------------------------------------------------------------


@dataclass
class Books:
    """Exchanges of the vendor and rows of the ledger, by the tags of calls."""

    calls: dict[str, Made]
    exchanges: dict[str, list[Exchange]]
    rows: dict[str, list[Entry]]
    killed: list[float]
    loses_rows: bool

    def settled(self) -> Iterator[tuple[str, list[Entry], float]]:
        """Yield calls with their rows and the vendor's bill."""
        for tag in self.calls:
            charges = [e.charge for e in self.exchanges[tag] if e.charge is not None]
            yield tag, self.rows[tag], float(sum(charge.cost for charge in charges))

    def near_a_kill(self, tag: str) -> bool:
        """Tell whether a worker was killed while a call was under way, or just after."""
        began = self.calls[tag].at
        ends = [each.until or began for each in self.exchanges[tag]]
        end = max([began, *ends]) + LOST_SECONDS
        return any(began <= at <= end for at in self.killed)


def tag_of(exchange: Exchange) -> str | None:
    """Return the tag of the call that an exchange of the vendor's belongs to."""
    at = exchange.body.find(b"call-")
    if at < 0:
        return None
    return exchange.body[at : at + 20].split(b" ")[0].decode()


def explain(rows: Sequence[Entry], exchanges: Sequence[Exchange]) -> str:
    """Describe a call whose charge is not the bill."""
    ours = [f"{row.model} {row.outcome} {row.input}+{row.output} ${row.cost}" for row in rows]
    theirs = []
    for each in exchanges:
        usage = each.charge.usage if each.charge is not None else None
        bill = f"{usage.prompt}+{usage.output} ${each.charge.cost}" if usage and each.charge else ""
        theirs.append(f"{each.model} {each.status} {each.ended} {each.fault} {bill}")
    return f"{'; '.join(ours)} | {'; '.join(theirs)}"


def compare(books: Books) -> None:
    """Print what agrees."""
    reported = wrong = under = lost = dead = damaged = 0
    worst = 0.0
    ratios: dict[str, list[float]] = defaultdict(list)
    missing_far: list[str] = []
    differing: list[str] = []
    for tag, rows, bill in books.settled():
        cost = sum(row.cost or 0.0 for row in rows)
        billed = [e for e in books.exchanges[tag] if e.charge is not None and e.charge.cost]
        if any(row.outcome == RESERVED for row in rows):
            dead += 1
            under += cost < bill * (1 - SAME)
            continue
        if len(billed) > len([row for row in rows if row.cost]):
            lost += 1
            if not (books.loses_rows and books.near_a_kill(tag)):
                missing_far.append(tag)
            continue
        if any(each.fault and each.fault["kind"] == "damaged" for each in books.exchanges[tag]):
            damaged += 1  # the bit may be one of the usage
        elif not any(row.estimated for row in rows):
            reported += 1
            difference = abs(cost - bill) / max(bill, 1e-9)
            worst = max(worst, difference)
            if difference > SAME:
                wrong += 1
                differing.append(explain(rows, books.exchanges[tag]))
        elif bill:
            ratios[books.calls[tag].kind].append(cost / bill)
    print(f"       {damaged} calls whose answers were changed on the way are not compared")
    text = f"{reported} calls with reported usage: {wrong} differ from the bill ({worst:.1e})"
    verdict(wrong == 0, text)
    for line in differing[:SHOWN]:
        print(f"       {line}", flush=True)
    verdict(under == 0, f"{dead} calls of killed workers: {under} charged less than the bill")
    text = f"{lost} calls lost a row, {len(missing_far)} of them without a kill {missing_far[:5]}"
    verdict(not missing_far, text)
    for kind, found in sorted(ratios.items()):
        low, middle, high = min(found), statistics.median(found), max(found)
        text = f"{len(found)} calls with {kind}, estimated: charge / bill {low:.2f} to {high:.2f}"
        print(f"       {text}, median {middle:.2f}", flush=True)


def check_estimates(
    rows: Sequence[Entry], exchanges: Sequence[Exchange], calls: dict[str, Made]
) -> None:
    """Compare estimated rows with the estimate of the prompt, and with the vendor's tokens."""
    few = [
        row.tags
        for row in rows
        if row.estimated and row.cost and row.outcome != RESERVED and row.input is None
        and row.tags in calls
        and row.tokens < prompt_of(None, Context.of(calls[row.tags].text), StreamOptions()).tokens
    ]  # fmt: skip
    verdict(not few, f"{len(few)} estimated rows have fewer tokens than the estimated prompt")
    by_id = {each.request_id: each for each in exchanges if each.request_id}
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        exchange = by_id.get(row.request_id or "")
        if row.estimated and exchange is not None and exchange.charge is not None:
            usage = exchange.charge.usage
            if usage.total and row.outcome != RESERVED:
                found[row.outcome].append(row.tokens / usage.total)
    for outcome, ratios in sorted(found.items()):
        text = f"estimated rows that ended with {outcome}: tokens / vendor's {min(ratios):.2f} to"
        print(f"       {len(ratios)} {text} {max(ratios):.2f}", flush=True)


def check_budgets(
    rows: Sequence[Entry], spent: dict[str, float], lost: Sequence[float], processes: int
) -> None:
    """Check that no key exceeds its budget by more than the documented sum.

    Where the store was lost, that is one more reservation for each process, and the charges of the
    second before the loss.
    """
    worst = 0.0
    exceeded = reached = 0
    for key, budget in BUDGETS.items():
        own = sorted((row for row in rows if row.key == key), key=lambda row: row.at)
        total = sum(row.cost or 0.0 for row in own)
        if not own:
            continue
        last = max((row for row in own if row.reserved), key=lambda row: row.at)
        under_way = [row for row in own if row.at + (row.latency or 1e9) + 2.0 >= last.at]
        error = sum(max(0.0, (row.cost or 0.0) - (row.reserved or 0.0)) for row in under_way)
        largest = max(row.reserved or 0.0 for row in own)
        allowed = largest + error + largest * processes * len(lost)
        allowed += sum(
            row.cost or 0.0
            for row in own
            if any(row.at <= at <= row.at + (row.latency or 0.0) + 1.5 for at in lost)
        )
        reached += total >= budget
        exceeded += total > budget + allowed + 1e-9
        worst = max(worst, (total - budget) / allowed)
    text = (
        f"{reached} of {len(BUDGETS)} budgets reached, {exceeded} exceeded by more than one "
        f"reservation and the errors of the estimates; at most {worst:.2f} of that sum"
    )
    verdict(exceeded == 0 and reached > 0, text)
    agree = max(
        abs(spent[key] - sum(row.cost or 0.0 for row in rows if row.key == key)) for key in spent
    )
    print(f"       budgets and rows differ by at most ${agree:.9f}", flush=True)


def run(engine: str, calls: int, seed: int, folder: Path) -> None:
    """Run the calls of an engine, and print a line for each fact."""
    chance = random.Random(seed)
    path = folder / "ledger"
    store = {
        "memory": "",
        "sqlite": f'[store]\nengine = "sqlite"\npath = "{path}"\n',
        "redis": f'[store]\nengine = "redis"\nurl = "unix://{folder / "s"}"\nledger = "{path}"\n',
    }[engine]
    limits = "".join(owner(name, dollars_per_day=most) for name, most in BUDGETS.items())
    text = ROUTES + store + limits + "".join(map(owner, PLAIN))
    workers = ("--workers", "2") if engine != "memory" else ()
    made = [random_call(chance, number) for number in range(calls)]
    killed: list[float] = []
    lost: list[float] = []
    with ExitStack() as stack:
        redis = Store(folder) if engine == "redis" else None
        if redis is not None:
            stack.callback(redis.kill)
        schedule = Schedule(seed, 0.12)
        vendor = stack.enter_context(
            Vendor(schedule=schedule, tokens_per_second=2_000, first_token=0.02)
        )
        count = 2 if engine == "redis" else 1
        served = [stack.enter_context(gateway(vendor, text, *workers)) for _ in range(count)]

        async def all_calls() -> None:
            killing = [asyncio.ensure_future(kills(served, chance, killed))]
            if redis is not None:
                killing.append(asyncio.ensure_future(redis.losses(lost)))
            await drive([one.url for one in served], made)
            for task in killing:
                task.cancel()

        began = time.monotonic()
        asyncio.run(all_calls())
        seconds = time.monotonic() - began
        time.sleep(SETTLED)
        exchanges = vendor.state.record.of()
        reply = served[0].ask("/v1/spending", key_of(OPERATOR))
        spent = {row["key"]: row["dollars_today"] for row in json.loads(reply.body)["data"]}
        if engine == "memory":
            reply = served[0].ask("/v1/spending/report?rows=true", key_of(OPERATOR), seconds=60)
            rows = [_entry(row) for row in json.loads(reply.body)["data"]]
        else:
            with closing(read_only(path)) as database:
                rows = entries_in(sqlite_execute(database), Query())
        audit = served[0].ask("/v1/spending/audit", key_of(OPERATOR), seconds=60)
    statuses = Counter(one.status for one in made)
    print(f"{engine}: {calls} calls in {seconds:.0f} s, {dict(statuses)}", flush=True)
    print(f"       {len(exchanges)} requests at the vendor, {len(rows)} rows")
    print(f"       {len(killed)} workers killed, {len(lost)} times Redis")
    by_tag: dict[str, list[Exchange]] = defaultdict(list)
    tags = {one.tag: one for one in made}
    for each in exchanges:
        if (tag := tag_of(each)) in tags:
            by_tag[tag].append(each)
    rows_of: dict[str, list[Entry]] = defaultdict(list)
    for row in rows:
        rows_of[row.tags].append(row)
    compare(Books(tags, by_tag, rows_of, killed, engine == "redis"))
    check_estimates(rows, exchanges, tags)
    check_budgets(rows, spent, lost, 2 * count)
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
    """Print the facts of each engine."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else CALLS
    engines = sys.argv[2:] or ["memory", "sqlite", "redis"]
    for number, engine in enumerate(engines):
        with tempfile.TemporaryDirectory() as name:
            run(engine, calls, seed=calls + number, folder=Path(name))


if __name__ == "__main__":
    main()

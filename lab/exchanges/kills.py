"""A gateway in a separate process, killed while it answers, and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp

from lab.exchanges import gateway
from lab.exchanges.outcome import Outcome, least, requests_since, strangers
from lab.exchanges.plan import Conversation, Plan
from lab.exchanges.protocols import PROTOCOLS
from lab.vendor import ManualClock, Vendor

__all__ = ["hold"]

_START = 30.0


async def hold(plan: Plan) -> Outcome:
    """Kill a gateway in the middle of an answer; compare its ledger after a new start."""
    outcome = Outcome(plan)
    talk = plan.conversations[0]
    keys = {each.tenant: [f"key-{each.tenant}"] for each in plan.conversations}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            Vendor(keys, clock=ManualClock(), seed=plan.number, tokens_per_second=50) as vendor,
            aiohttp.ClientSession() as session,
        ):
            file = folder / "gateway.toml"
            store = f'[store]\nengine = "sqlite"\npath = "{folder / "ledger.db"}"\n'
            file.write_text(store + gateway.file_of(plan, vendor.url), "utf-8")
            problems = await _killed(plan, talk, vendor, session, file, outcome)
            outcome.disagreements += [
                f"{talk.tenant} {talk.target.name}: {each}" for each in problems
            ]
            outcome.disagreements += strangers(vendor, keys.keys())
    return outcome


async def _killed(
    plan: Plan,
    talk: Conversation,
    vendor: Vendor,
    session: aiohttp.ClientSession,
    file: Path,
    outcome: Outcome,
) -> list[str]:
    made: list[str] = []
    protocol = PROTOCOLS[plan.notes["protocol"]]
    entries = [*talk.history, talk.prompts[0]]
    key = gateway.key_of(talk.tenant)
    built = protocol.build(f"route-{talk.tenant}", entries, talk.options, True, key)
    async with _child(plan, file) as (url, process):
        try:
            async with session.post(
                url + built.path, json=built.body, headers=built.headers
            ) as response:
                number = 0
                async for _ in gateway.events_of(response, protocol.lines):
                    number += 1
                    if number > plan.notes["after"]:
                        break
                _kill(process)
                rest = [each async for each in gateway.events_of(response, protocol.lines)]
                outcome.counts["events after the kill"] += len(rest)
        except aiohttp.ClientError:
            outcome.counts["connections broken by a kill"] += 1
    exchanges = await requests_since(vendor, talk.tenant, 0)
    outcome.counts["requests"] += len(exchanges)
    billed = sum(float(each.charge.cost) for each in exchanges if each.charge is not None)
    async with _child(plan, file) as (url, _):
        rows = await gateway.rows_of(url, session, talk.tenant, settled=False)
        again = await gateway.ask(session, url, built, protocol, True, None)
    charged = sum(row.get("cost") or 0 for row in rows)
    outcome.counts["kills"] += 1
    if exchanges and not rows:
        made.append(f"ledger: no row for {len(exchanges)} requests")
    for row in rows:
        if row["outcome"] == "reserved" and row["cost"] != row["reserved"]:
            made.append(f"bill: {row['cost']} for an attempt whose process died: {row['reserved']}")
    if charged < sum(map(least, exchanges)) - 1e-9:
        made.append(f"bill: the vendor's is {billed}, the ledger's {charged}, after a kill")
    if again.failed is not None and exchanges and exchanges[-1].status == 200:
        made.append(f"kill: the same request after a new start: {again.failed}")
    return made


@asynccontextmanager
async def _child(plan: Plan, file: Path) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """Start a gateway, and kill it at the end.

    It chooses its port itself: another exchange could take a port that is only known to be free.
    """
    environ = dict(os.environ)
    for talk in plan.conversations:
        environ[gateway.variable_of(talk.tenant)] = gateway.key_of(talk.tenant)
    program = Path(sys.executable).with_name("swink")
    process = await asyncio.create_subprocess_exec(
        program, "gateway", "--config", file, "--port", "0",
        env=environ, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_START):
            url = await _url_of(process)
        yield url, process
    finally:
        if process.returncode is None:
            _kill(process)
        await process.wait()


def _kill(process: asyncio.subprocess.Process) -> None:
    """Send SIGKILL, also to a process that has ended and is not yet waited for."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGKILL)


async def _url_of(process: asyncio.subprocess.Process) -> str:
    """Return the address that a gateway prints when it is ready."""
    assert process.stderr is not None
    async for line in process.stderr:
        if line.startswith(b"serving "):
            return line.split()[-1].decode()
    raise RuntimeError(f"the gateway has ended with {await process.wait()}")

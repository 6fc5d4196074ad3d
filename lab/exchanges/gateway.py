"""Exchanges through the gateway, in the protocols that it serves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any

import aiohttp

import swink
from lab.exchanges import compare, holding
from lab.exchanges.failures import STATUS_OF_KIND, cause_of, kinds_of
from lab.exchanges.outcome import (
    Outcome,
    attempts,
    break_request,
    is_silent,
    least,
    requests_since,
    strangers,
)
from lab.exchanges.plan import Conversation, Plan, result_of
from lab.exchanges.protocols import PROTOCOLS, Protocol
from lab.exchanges.protocols.base import Built, loaded
from lab.exchanges.talk import Entry, Failed, Seen, said_of
from lab.vendor import Exchange, ManualClock, Vendor
from lab.vendor.faults import Fault
from lab.vendor.protocols.base import API
from lab.vendor.protocols.table import APIS
from swink_gateway.policy.config import Source
from swink_gateway.policy.limits import open_ledger
from swink_gateway.serving.server import Gateway

__all__ = ["ask", "events_of", "file_of", "hold", "key_of", "rows_of", "variable_of"]

_SILENT = "time_limits = { first_event = 2.5, idle = 2.5, no_progress = 2.5 }"
_CROWD = 5
"""How many requests a crowd sends at once."""

_REFUSED_KEY = {"chat": 502, "responses": 502, "messages": 503, "gemini": 400, "ollama": 502}
"""The status with which the gateway says that its own credentials were refused."""


async def hold(plan: Plan) -> Outcome:
    """Hold an exchange through a new gateway in this process."""
    outcome = Outcome(plan)
    keys = {talk.tenant: [f"key-{talk.tenant}"] for talk in plan.conversations}
    async with Vendor(keys, clock=ManualClock(), seed=plan.number) as vendor:
        if any(talk.leave_at is not None for talk in plan.conversations):
            vendor.state.tokens_per_second = 50
        config = Source("exchange.toml", file_of(plan, vendor.url)).config(
            {variable_of(each): key_of(each) for each in keys}
        )
        async with (
            swink.Client() as client,
            Gateway(client, config=config, ledger=open_ledger(config.store)) as gateway,
            aiohttp.ClientSession() as session,
        ):
            async with asyncio.TaskGroup() as group:
                for talk in plan.conversations:
                    group.create_task(_converse(plan, talk, vendor, gateway.url, session, outcome))
            for talk in plan.conversations:
                for problem in await _spending(gateway.url, session, plan, talk, vendor, outcome):
                    outcome.disagreements.append(f"{talk.tenant} {talk.target.name}: {problem}")
        outcome.disagreements += strangers(vendor, keys.keys())
    return outcome


def file_of(plan: Plan, url: str) -> str:
    """Return the gateway's configuration: a route, a key and a budget for each tenant."""
    lines = ['[prices."ollama/*"]', "input = 0", "output = 0"]
    lines += ['[prices."mistral/mistral-large-latest"]']
    lines += ["input = 0.5", "output = 1.5", "cache_read = 0.05"]
    lines += ['[prices."cohere/command-a-reasoning-08-2025"]', "input = 2.5", "output = 10"]
    for number, talk in enumerate(plan.conversations):
        target = talk.target
        budget = plan.notes.get("budget", 100) if number == 0 else 100
        own = target.options(url, f"key-{talk.tenant}")
        settings = ", ".join(f'{name} = "{value}"' for name, value in target.settings.items())
        given = f'base_url = "{own["base_url"]}", api_key = "{own["api_key"]}"'
        if settings:
            given += f", settings = {{ {settings} }}"
        lines += [
            f"[routes.route-{talk.tenant}]",
            f'tiers = [{{ model = "{target.name}", options = {{ {given} }} }}]',
        ]
        if talk.fault is not None and talk.fault.kind == "silence":
            lines.append(_SILENT)
        lines += [
            f"[keys.{talk.tenant}]",
            f'key = "${{{variable_of(talk.tenant)}}}"',
            f'models = ["route-{talk.tenant}"]',
            f"dollars_per_day = {budget:.8f}",
        ]
    return "\n".join(lines) + "\n"


def variable_of(tenant: str) -> str:
    """Return the variable of the environment that holds the tenant's key for the gateway."""
    return f"KEY_{tenant.upper()}"


def key_of(tenant: str) -> str:
    """Return the tenant's key for the gateway."""
    return f"gateway-key-of-{tenant}-0123456789"


async def _converse(
    plan: Plan,
    talk: Conversation,
    vendor: Vendor,
    url: str,
    session: aiohttp.ClientSession,
    outcome: Outcome,
) -> None:
    if plan.kind == "proxy":
        own = {"base_url": url, "api_key": key_of(talk.tenant)}
        async with swink.Client(providers={"proxy": own}) as caller:
            model = f"proxy/route-{talk.tenant}"
            await holding.converse(plan, talk, vendor, caller, outcome, model)
        return
    protocol = PROTOCOLS[plan.notes["protocol"]]
    entries: list[Entry] = list(talk.history)
    chance = random.Random(f"results {plan.seed} {plan.number}")
    prompts = list(talk.prompts)
    entries.append(prompts.pop(0))
    since = 0
    if plan.notes.get("crowd"):
        since = await _crowd(plan, talk, vendor, url, session, outcome)
    for turn in range(talk.live):
        if talk.fault is not None and turn == talk.fault_at:
            break_request(vendor, talk)
        model = f"route-{talk.tenant}"
        built = protocol.build(model, entries, talk.options, talk.streamed, key_of(talk.tenant))
        leaves = talk.leave_after if talk.leave_at == turn else None
        seen = await ask(session, url, built, protocol, talk.streamed, leaves)
        exchanges = await requests_since(vendor, talk.tenant, since)
        vendor.state.faults.clear()
        since = max([since, *(each.number for each in exchanges)])
        for problem in _judged(plan, talk, entries, exchanges, seen, protocol, outcome):
            outcome.disagreements.append(
                f"{talk.tenant} {talk.target.name} ({talk.target.api}), turn {turn}: {problem}"
            )
        if seen.failed is not None or seen.left:
            break
        entries.append(said_of(seen))
        if seen.calls:
            entries += [result_of(chance, call) for call in seen.calls]
        elif prompts:
            entries.append(prompts.pop(0))
        else:
            break


async def _crowd(
    plan: Plan,
    talk: Conversation,
    vendor: Vendor,
    url: str,
    session: aiohttp.ClientSession,
    outcome: Outcome,
) -> int:
    """Send the first prompt several times at once; return the number of the last request."""
    protocol = PROTOCOLS[plan.notes["protocol"]]
    model = f"route-{talk.tenant}"
    entries = [*talk.history, talk.prompts[0]]
    built = protocol.build(model, entries, talk.options, talk.streamed, key_of(talk.tenant))
    calls = [ask(session, url, built, protocol, talk.streamed, None) for _ in range(_CROWD)]
    seen = await asyncio.gather(*calls)
    exchanges = await requests_since(vendor, talk.tenant, 0)
    outcome.counts["requests"] += len(exchanges)
    answered = sum(each.failed is None for each in seen)
    whole = sum(each.ended == "complete" for each in exchanges)
    if answered != whole:
        name = f"{talk.tenant} {talk.target.name}"
        outcome.disagreements.append(f"{name}: {whole} answers of the vendor, {answered} got")
    return max((each.number for each in exchanges), default=0)


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    built: Built,
    protocol: Protocol,
    streamed: bool,
    leaves: int | None,
) -> Seen:
    """Send a request and read its answer; with `leaves` hang up after so many events."""
    async with session.post(url + built.path, json=built.body, headers=built.headers) as response:
        named = tuple(
            path.strip()
            for name in ("x-swink-dropped", "x-swink-notices")
            for path in response.headers.get(name, "").split(",")
            if path.strip()
        )
        if response.status != 200:
            failed = protocol.failed(response.status, loaded(await response.read()))
            return Seen(failed=failed, named=named)
        if not streamed:
            made = protocol.whole(loaded(await response.read()))
            made.named = named
            return made
        events: list[Any] = []
        left = False
        try:
            async for event in events_of(response, protocol.lines):
                events.append(event)
                if leaves is not None and len(events) > leaves:
                    left = True
                    break
        except aiohttp.ClientError as error:
            made = protocol.events(events)
            made.problems = [f"the connection broke: {error!r}"]
            return made
        made = protocol.events(events)
        made.named = named
        if left:
            response.close()
            made.left = True
            made.problems = []
            made.failed = None
        return made


async def events_of(response: aiohttp.ClientResponse, lines: bool) -> AsyncIterator[Any]:
    """Yield the events of a stream: JSON of lines, or the data of SSE."""
    data: list[str] = []
    async for raw in response.content:
        line = raw.decode().rstrip("\r\n")
        if lines:
            if line:
                yield loaded(line)
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            yield loaded("\n".join(data))
            data.clear()
    if data:
        yield loaded("\n".join(data))


def _judged(
    plan: Plan,
    talk: Conversation,
    entries: Sequence[Entry],
    exchanges: Sequence[Exchange],
    seen: Seen,
    protocol: Protocol,
    outcome: Outcome,
) -> Iterator[str]:
    yield from seen.problems
    failed = seen.failed
    outcome.counts["requests"] += len(exchanges)
    if failed is not None and is_silent(talk) and not any(each.fault for each in exchanges):
        return  # the time limits are short, and the machine may be slow
    if not exchanges:
        if failed is None and not seen.left:
            yield "requests: the caller has an answer, the vendor no request"
        elif failed is not None and failed.status == 429 and "budget" in plan.notes:
            outcome.counts["over budget"] += 1
            if failed.code not in (None, "insufficient_quota", "429"):
                yield f"budget: the code of a spent one is {failed.code}"
        elif failed is not None and failed.status != 400:
            yield f"requests: none, and {failed}"
        elif failed is not None:
            outcome.counts["unsupported"] += 1
            if not _may_be_unsupported(talk):
                yield f"requests: none, and {failed}"
        return
    shown = replace(talk, options=_said(talk, protocol))
    for exchange in exchanges:
        if exchange.body:
            yield from compare.arrived(exchange, shown, entries, seen.named)
    yield from attempts(replace(talk, retries=0), exchanges, seen)
    last = exchanges[-1]
    if seen.left:
        outcome.counts["left"] += 1
        yield from compare.partial(last, seen)
    elif failed is not None:
        outcome.counts["failed"] += 1
        yield from _failure(plan, last, failed, protocol)
        yield from compare.partial(last, seen)
    else:
        outcome.counts["complete"] += 1
        whole = last.ended == "complete"
        if seen.choices != talk.options.choices:
            yield f"choices: {talk.options.choices} were requested, the caller got {seen.choices}"
        yield from compare.answer(last, seen, usage=whole, client=plan.notes["protocol"])


def _said(talk: Conversation, protocol: Protocol) -> Any:
    """Return the options that the client's protocol can say."""
    changes: dict[str, Any] = {}
    for name in protocol.unsaid:
        changes[name] = () if name == "stop" else None
    return replace(talk.options, **changes)


def _may_be_unsupported(talk: Conversation) -> bool:
    options = talk.options
    images = any(getattr(each, "images", ()) for each in (*talk.history, *talk.prompts))
    if options.choices > 1:
        return True  # only a provider with the client's protocol can give several answers
    return bool(images or options.stop or options.schema or options.choice or options.tools)


def _failure(plan: Plan, exchange: Exchange, failed: Failed, protocol: Protocol) -> Iterator[str]:
    """Yield where a failure is not the one that the vendor's own clients get."""
    fault = cause_of(exchange)
    if fault is None:
        if exchange.ended == "refused":
            yield f"refused: {exchange.status} {exchange.rule}: {exchange.message}"
        else:
            yield f"failure: {failed} although the answer was sent ({exchange.ended})"
        return
    kinds = kinds_of(exchange)
    own = exchange.status if exchange.ended == "refused" else None
    allowed = {STATUS_OF_KIND[kind] for kind in kinds}
    if own is not None:
        same = protocol.api == exchange.api
        if "auth" in kinds:
            allowed = {_REFUSED_KEY[plan.notes["protocol"]], *([own] if len(kinds) > 1 else [])}
        else:
            allowed = {own} if same else {own, *allowed}
        if own == 529 and not same:
            allowed = {503}
        if same and "auth" not in kinds:
            yield from _same_words(exchange, fault, failed, protocol)
    elif exchange.status == 200 or exchange.streamed:
        allowed |= {200, *([_REFUSED_KEY[plan.notes["protocol"]]] if "auth" in kinds else [])}
    if exchange.ended == "failed" and fault.failure is not None:
        allowed.add(_api_of(exchange).failure(fault.failure, "").status)
    if failed.status not in allowed:
        yield (
            f"exception: status {failed.status} ({failed}) for {fault}, which ended "
            f"{exchange.ended} with {exchange.status}; expected {sorted(allowed)}"
        )
    if failed.type == "none":
        yield f"exception: the error body does not have the form of the protocol: {failed}"


def _api_of(exchange: Exchange) -> API:
    return next(each for each in APIS if each.name == exchange.api)


def _same_words(
    exchange: Exchange, fault: Fault, failed: Failed, protocol: Protocol
) -> Iterator[str]:
    """Yield where the error's body differs from the one that the vendor's clients get."""
    if fault.failure is None:
        return
    direct = _api_of(exchange).failure(fault.failure, "")
    wanted = protocol.failed(direct.status, loaded(direct.body))
    for name in ("status", "code") if wanted.code is not None else ("status", "type"):
        if getattr(wanted, name) not in (None, getattr(failed, name)):
            yield (
                f"exception: {name} is {getattr(failed, name)!r}, directly "
                f"{getattr(wanted, name)!r}, for {fault}"
            )


async def _spending(
    url: str,
    session: aiohttp.ClientSession,
    plan: Plan,
    talk: Conversation,
    vendor: Vendor,
    outcome: Outcome,
) -> list[str]:
    """Compare a tenant's ledger with the vendor's bill."""
    rows = await rows_of(url, session, talk.tenant)
    exchanges = [each for each in await requests_since(vendor, talk.tenant, 0) if each.body]
    made = list(_of_ledger(rows, exchanges, talk, outcome))
    if plan.kind == "budget" and talk is plan.conversations[0]:
        made += _of_budget(rows, plan.notes["budget"], outcome)
    return made


async def rows_of(
    url: str, session: aiohttp.ClientSession, tenant: str, *, settled: bool = True
) -> list[dict[str, Any]]:
    """Return the rows of a tenant's ledger; `settled` waits a second until all attempts are."""
    headers = {"authorization": f"Bearer {key_of(tenant)}"}
    rows: list[dict[str, Any]] = []
    for _ in range(100):
        async with session.get(f"{url}/v1/spending/report?rows=true", headers=headers) as response:
            rows = (await response.json())["data"]
        if not settled or all(row.get("outcome") != "reserved" for row in rows):
            break
        await asyncio.sleep(0.01)
    return rows


def _of_budget(rows: list[dict[str, Any]], budget: float, outcome: Outcome) -> Iterator[str]:
    """Yield where a key spent more than its budget and the largest reservation."""
    charged = sum(row.get("cost") or 0 for row in rows)
    largest = max((row.get("reserved") or 0 for row in rows), default=0)
    beyond = sum(max((row.get("cost") or 0) - (row.get("reserved") or 0), 0) for row in rows)
    if charged > budget + largest + beyond + 1e-9:
        yield f"budget: {charged} were charged to a key with {budget}"
    if outcome.counts["over budget"] and charged < budget - 1e-8:
        yield f"budget: a key with {budget} was refused after {charged}"


def _of_ledger(
    rows: list[dict[str, Any]], exchanges: list[Exchange], talk: Conversation, outcome: Outcome
) -> Iterator[str]:
    if len(rows) != len(exchanges) and not is_silent(talk):
        unsent = sum(not row.get("cost") for row in rows)
        if not len(exchanges) <= len(rows) <= len(exchanges) + unsent:
            yield (f"ledger: {len(rows)} rows for {len(exchanges)} requests")
    if any(row.get("key") != talk.tenant for row in rows):
        yield (f"tenant: rows of {[row.get('key') for row in rows]}")
    billed = sum(float(each.charge.cost) for each in exchanges if each.charge is not None)
    charged = sum(row.get("cost") or 0 for row in rows)
    estimated = [row for row in rows if row.get("estimated")]
    if not estimated and abs(charged - billed) > 1e-9 * (1 + len(rows)) + 1e-6 * billed:
        yield (f"bill: the vendor's is {billed}, the ledger's {charged}, without estimates")
    for row in estimated:
        if (row.get("cost") or 0) > (row.get("reserved") or 0) * (1 + 1e-9):
            yield (f"bill: an estimate of {row['cost']} beyond its reservation {row['reserved']}")
    if estimated and billed:
        outcome.ratios.append(charged / billed)
        if charged < sum(map(least, exchanges)) - 1e-9:
            yield (f"bill: the vendor's is {billed}, the ledger's {charged}, with estimates")

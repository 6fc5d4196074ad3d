"""A thousand calls at once over two keys, through the two examples of providers that need it.

One creates jobs that have to be ended, the other exchanges its key for a ticket; in between calls
are cancelled and left, requests are refused, and tickets are withdrawn and expire.
"""

from __future__ import annotations

import asyncio
import importlib
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest
from documents import ROOT

import swink_core as swink
from swink_core.providers import HTTPProvider, LoopClock
from swink_recorder.loopback import Exchange, LoopbackServer

EXAMPLES = ROOT / "examples"
KEYS = ("first-key-secret", "second-key-secret")
CALLS = 1000

LIFE = 3600.0
"""Seconds for which a ticket is good."""

WITHDRAWN_AT = 50
"""How many answers a key gets in a realm before its ticket is withdrawn."""

JSON = {"Content-Type": "application/json"}
LONGEST_MODULE = 120


@pytest.fixture
def provider_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], type[HTTPProvider]]:
    """Imports the provider of an example, which is not installed."""

    def find(folder: str, name: str) -> type[HTTPProvider]:
        monkeypatch.syspath_prepend(str(EXAMPLES / folder / "src"))
        module = importlib.import_module(f"swink_provider_{name}")
        monkeypatch.delitem(sys.modules, module.__name__)
        found: type[HTTPProvider] = getattr(module, name.title())
        return found

    return find


@pytest.mark.parametrize("name", ["job_provider", "token_provider"])
def test_an_example_of_a_provider_is_short(name: str) -> None:
    [module] = (EXAMPLES / name / "src").glob("*/*.py")
    assert len(module.read_text("utf-8").splitlines()) <= LONGEST_MODULE


async def answer(exchange: Exchange, data: Any, status: int = 200) -> None:
    await exchange.start(status, JSON)
    await exchange.write(msgspec.json.encode(data))
    await exchange.end()


def outcomes(results: list[Any]) -> Counter[str]:
    """Count how calls ended, by the names of exceptions."""
    return Counter(
        type(result).__name__ if isinstance(result, BaseException) else str(result)
        for result in results
    )


async def with_cancels(
    calls: Sequence[Awaitable[str]], cancelled: range, longest: float
) -> list[str | BaseException]:
    """Await calls that began together, and cancel some at random times."""
    chance = random.Random(7)
    tasks = [asyncio.ensure_future(call) for call in calls]
    for number in cancelled:
        await asyncio.sleep(chance.random() * longest)
        tasks[number].cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)


# -- jobs ----------------------------------------------------------------------------------------


class Kilns(LoopbackServer):
    """Fires, and keeps account of firings, who may see them, and how they ended."""

    def __init__(self) -> None:
        super().__init__()
        self.firings: list[tuple[str, int]] = []  # key and number of the call
        self.ends: list[list[str]] = []
        self.faults: list[str] = []

    async def respond(self, exchange: Exchange) -> None:
        key = exchange.headers.get("x-kiln-key", "")
        _, _, _, *rest = exchange.path.split("/")
        if not rest:
            await exchange.pause(0.005)  # so that some calls are cancelled meanwhile
            number = int(exchange.json["turns"][0]["text"])
            id = len(self.firings)
            self.firings.append((key, number))
            self.ends.append([])
            links = {word: f"/v1/firings/{id}/{word}" for word in ("watch", "halt")}
            await answer(exchange, links, 202)
            return
        id = int(rest[0])
        owner, number = self.firings[id]
        if key != owner:
            self.faults.append(f"{exchange.path} of {owner} with the key {key}")
        if rest[1] == "halt":
            if exchange.body or "content-type" in exchange.headers:
                self.faults.append(f"{exchange.path} with a content")
            self.ends[id].append("halted")
            await answer(exchange, {}, 200)
        elif number % 10 == 3:
            await answer(exchange, {"problem": {"slug": "bad_key", "say": "Withdrawn."}}, 401)
        else:
            await self.watch(exchange, id, number)

    async def watch(self, exchange: Exchange, id: int, number: int) -> None:
        if exchange.headers["accept"] != "text/event-stream":
            self.faults.append(f"{exchange.path} accepts {exchange.headers['accept']}")
        await exchange.start(200, {"Content-Type": "text/event-stream"})
        await exchange.write(b'event: piece\ndata: {"add": "%d"}\n\n' % number)
        await exchange.pause(0.02)
        if number % 10 == 5:
            await exchange.write(b'event: broken\ndata: {"slug": "kiln_cracked"}\n\n')
        else:
            await exchange.write(b'event: closed\ndata: {"why": "complete", "in": 1, "out": 1}\n\n')
            self.ends[id].append("closed")
        await exchange.end()


async def fire(client: swink.Client, url: str, number: int) -> str:
    """Make a call, or leave it after its first word, and tell how it ended."""
    asked = client.stream(
        "kiln/kiln-large", str(number), api_key=KEYS[number % 2], base_url=f"{url}/v1"
    )
    async with asked as stream:
        async for event in stream:
            if number % 10 == 1 and event.type == "text_delta":
                return "left"
    message = stream.message
    assert message.error_kind or message.text == str(number)
    return str(message.error_kind or message.stop_reason)


async def test_every_job_that_nobody_waits_for_is_ended_by_the_key_that_created_it(
    provider_of: Callable[[str, str], type[HTTPProvider]],
) -> None:
    kilns = {"kiln": provider_of("job_provider", "kiln")}
    async with (
        Kilns() as service,
        swink.Client(providers=kilns, retry=swink.RetryPolicy.none()) as client,
    ):
        calls = [fire(client, service.url, number) for number in range(CALLS)]
        results = await with_cancels(calls, range(2, CALLS, 5), 0.01)

    assert service.faults == []
    ended = outcomes(results)
    assert ended.keys() == {"stop", "left", "auth", "overloaded", "CancelledError"}
    assert ended["left"] == ended["auth"] == ended["overloaded"] == CALLS // 10
    is_complete = {number for number, result in enumerate(results) if result == "stop"}
    for (_, number), ends in zip(service.firings, service.ends, strict=True):
        assert ends.count("halted") == (number not in is_complete), (number, ends)


# -- tickets -------------------------------------------------------------------------------------


class Tarns(LoopbackServer):
    """Gives tickets, answers who brings one, and keeps account of both."""

    def __init__(self) -> None:
        super().__init__()
        self.fetches: Counter[tuple[str, str]] = Counter()
        self.owners: dict[str, tuple[str, str]] = {}
        self.valid: dict[tuple[str, str], str] = {}
        self.answers: Counter[tuple[str, str]] = Counter()
        self.mixed: list[str] = []
        self.refused = 0

    async def respond(self, exchange: Exchange) -> None:
        if exchange.path == "/tickets":
            await self.give(exchange)
            return
        owner = tuple(exchange.json["turns"][0]["text"].split())
        ticket = exchange.headers["authorization"].removeprefix("Ticket ")
        if self.owners.get(ticket) != owner:
            self.mixed.append(f"{owner} came with a ticket of {self.owners.get(ticket)}")
        if owner[0] == KEYS[1] and owner[1] == "lab":
            await answer(exchange, {"fault": "no_access", "text": "Not here."}, 401)
        elif ticket != self.valid[owner]:
            self.refused += 1
            await answer(exchange, {"fault": "ticket_spent", "text": "Spent."}, 401)
        else:
            self.answers[owner] += 1
            if self.answers[owner] == WITHDRAWN_AT:
                self.valid[owner] = ""
            await exchange.start(200, {"Content-Type": "application/x-ndjson"})
            await exchange.write(msgspec.json.encode({"type": "say", "text": ticket}) + b"\n")
            await exchange.pause(0.02)
            await exchange.write(b'{"type": "end", "why": "done", "read": 1, "wrote": 1}\n')
            await exchange.end()

    async def give(self, exchange: Exchange) -> None:
        owner = (exchange.json["key"], exchange.json["realm"])
        self.fetches[owner] += 1
        ticket = f"ticket-{self.fetches.total()}-secret"
        self.owners[ticket] = owner
        self.valid[owner] = ticket
        await exchange.pause(0.05)  # so that many wait for it
        await answer(exchange, {"ticket": ticket, "valid_ms": LIFE * 1000})


class Clock(LoopClock):
    """The loop's clock, set forward by hand."""

    ahead = 0.0

    def time(self) -> float:
        return time.monotonic() + self.ahead


OWNERS = tuple((key, realm) for key in KEYS for realm in ("prod", "lab"))

NO_ACCESS = OWNERS[3]
"""Whose tickets are good and do not help."""


async def say(client: swink.Client, service: Tarns, number: int) -> str:
    """Make a call and tell how it ended."""
    owner = OWNERS[number % 4]
    key, realm = owner
    settings = {"realm": realm, "tickets": f"{service.url}/tickets"}
    message = await client.stream(
        "tarn/tarn-deep",
        " ".join(owner),
        api_key=key,
        base_url=f"{service.url}/v2",
        settings=settings,
    ).result()
    assert service.owners[message.text] == owner
    return "done"


async def test_no_ticket_is_mixed_up_and_each_renewal_is_one_fetch(
    provider_of: Callable[[str, str], type[HTTPProvider]],
) -> None:
    clock = Clock()
    tarns = {"tarn": provider_of("token_provider", "tarn")}
    retry = swink.RetryPolicy.none()
    async with (
        Tarns() as service,
        swink.Client(providers=tarns, retry=retry, clock=clock) as client,
    ):
        calls = [say(client, service, number) for number in range(CALLS)]
        results = await with_cancels(calls, range(2, CALLS, 5), 0.01)
        assert service.fetches == {owner: 1 + (owner != NO_ACCESS) for owner in OWNERS}

        clock.ahead = LIFE
        calls = [say(client, service, number) for number in range(100)]
        later = await asyncio.gather(*calls, return_exceptions=True)
        assert service.fetches == {owner: 2 + (owner != NO_ACCESS) for owner in OWNERS}

    assert service.mixed == []
    assert service.refused > 0
    assert outcomes(later) == {"done": 75, "AuthenticationError": 25}
    assert outcomes(results).keys() == {"done", "AuthenticationError", "CancelledError"}
    failed = {number % 4 for number, end in enumerate(results) if "Auth" in type(end).__name__}
    assert [OWNERS[number] for number in failed] == [NO_ACCESS]

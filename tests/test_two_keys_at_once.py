"""A thousand calls at once over two keys, with cancels, refused tokens and expiry in between."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from attrs import define, field

import swink_core as swink
from swink_core import StreamOptions
from swink_core.providers import (
    EventWriter,
    Exchange,
    Grant,
    HTTPProvider,
    HTTPRequest,
    LoopClock,
    SSEDecoder,
    Token,
    TokenHTTP,
)
from swink_recorder.loopback import Exchange as Served
from swink_recorder.loopback import LoopbackServer

KEYS = ("first-key-secret", "second-key-secret")

CALLS = 1000

LIFE = 3600.0
"""Seconds for which a token is good."""

REVOKED_AT = 100
"""How many jobs a key creates before its token is revoked."""

JSON = {"Content-Type": "application/json"}


class Given(msgspec.Struct):
    token: str
    life: float


class Job(msgspec.Struct):
    id: str


class Event(msgspec.Struct):
    type: str
    data: str


@define(frozen=True)
class Key(Grant):
    key: str = field(repr=False)
    url: str

    async def fetch(self, http: TokenHTTP) -> Token:
        given = await http.form(self.url, {"key": self.key}, Given)
        return Token(given.token, given.life)


class Parser:
    def feed(self, frame: bytes, out: EventWriter) -> None:
        event = msgspec.json.decode(frame, type=Event)
        if event.type == "output":
            out.text(event.data)
        elif event.type == "done":
            out.stop(swink.StopReason.STOP)
            out.finish()


class Jobs(HTTPProvider):
    decoder = SSEDecoder.named_text

    def convert(self, model: Any, context: Any, options: Any) -> Any:
        return {}

    def request(self, model: Any, payload: Any, options: StreamOptions) -> HTTPRequest:
        return self.json_request(f"{self.base_url(options)}/jobs", payload)

    def parser(self, model: Any) -> Parser:
        return Parser()

    def credential(self, request: HTTPRequest, options: StreamOptions) -> Grant:
        return Key(options.api_key or "", f"{self.base_url(options)}/token")

    async def exchange(self, x: Exchange) -> AsyncIterator[bytes]:
        url = self.base_url(x.options)
        job = await x.read(x.request(), Job)
        x.on_abandon(HTTPRequest(f"{url}/cancel/{job.id}"))
        async for data in x.stream(HTTPRequest(f"{url}/stream/{job.id}", method="GET")):
            yield data


class Service(LoopbackServer):
    """Gives tokens, creates jobs, streams and cancels them, and keeps account of all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.fetches: Counter[str] = Counter()
        self.owners: dict[str, str] = {}
        self.valid: dict[str, str] = {}
        self.created: dict[str, str] = {}  # the call of each job
        self.by_key: Counter[str] = Counter()
        self.cancelled: Counter[str] = Counter()
        self.mixed: list[str] = []
        self.refused = 0

    async def respond(self, exchange: Served) -> None:
        _, what, *rest = exchange.path.split("/")
        if what == "token":
            await self._token(exchange)
            return
        key = exchange.headers["x-owner"]
        token = exchange.headers.get("authorization", "").removeprefix("Bearer ")
        if self.owners.get(token) != key:
            self.mixed.append(f"{key} came with a token of {self.owners.get(token)}")
        if token != self.valid[key]:
            self.refused += 1
            await self._whole(exchange, {"error": {"message": "the token is over"}}, 401)
        elif what == "jobs":
            id = f"job-{len(self.created) + 1}"
            self.created[id] = exchange.headers["x-call"]
            self.by_key[key] += 1
            if self.by_key[key] == REVOKED_AT:
                self.valid[key] = ""
            await self._whole(exchange, {"id": id}, 201)
        elif what == "cancel":
            self.cancelled[rest[0]] += 1
            await self._whole(exchange, {})
        else:
            await exchange.start(200, {"Content-Type": "text/event-stream"})
            for word in ("Blue", " light"):
                await exchange.write(f"event: output\ndata: {word}\n\n".encode())
                await exchange.pause(0.02)
            await exchange.write(b"event: done\ndata: {}\n\n")
            await exchange.end()

    async def _token(self, exchange: Served) -> None:
        key = exchange.body.decode().removeprefix("key=")
        self.fetches[key] += 1
        token = f"token-{self.fetches.total()}-secret"
        self.owners[token] = key
        self.valid[key] = token
        await exchange.pause(0.05)  # so that many wait for it
        await self._whole(exchange, {"token": token, "life": LIFE})

    async def _whole(self, exchange: Served, data: Any, status: int = 200) -> None:
        await exchange.start(status, JSON)
        await exchange.write(msgspec.json.encode(data))
        await exchange.end()


class Clock(LoopClock):
    """The loop's clock, set forward by hand."""

    ahead = 0.0

    def time(self) -> float:
        return time.monotonic() + self.ahead


async def call(client: swink.Client, service: Service, number: int, leaves: bool) -> str:
    """Make a call; return its text, or nothing if it was left after its first word."""
    key = KEYS[number % 2]
    options: dict[str, Any] = {"api_key": key, "base_url": service.url}
    options["headers"] = {"x-owner": key, "x-call": str(number)}
    async with client.stream("jobs/any", "Hi", retry=swink.RetryPolicy.none(), **options) as stream:
        if leaves:
            async for event in stream:
                if event.type == "text_delta":
                    return ""
        return (await stream.result()).text


async def test_no_token_is_mixed_up_each_renewal_is_one_fetch_and_every_job_is_ended() -> None:
    chance = random.Random(7)
    clock = Clock()
    async with (
        Service() as service,
        swink.Client(providers={"jobs": Jobs}, clock=clock) as client,
    ):
        tasks = [
            asyncio.create_task(call(client, service, number, leaves=number % 5 == 1))
            for number in range(CALLS)
        ]
        for number in range(2, CALLS, 5):  # at any moment: before the token, the job, a word
            await asyncio.sleep(chance.random() * 0.02)
            tasks[number].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert service.fetches == dict.fromkeys(KEYS, 2)  # the first, and one for the refused

        clock.ahead = LIFE
        later = (call(client, service, CALLS + number, leaves=False) for number in range(50))
        assert set(await asyncio.gather(*later)) == {"Blue light"}
        assert service.fetches == dict.fromkeys(KEYS, 3)

    assert service.mixed == []
    assert service.refused > 0
    whole = {str(n) for n, result in enumerate(results) if result == "Blue light"}
    whole |= {str(CALLS + number) for number in range(50)}
    left = {n for n, result in enumerate(results) if result == ""}
    cancelled = {n for n, r in enumerate(results) if isinstance(r, asyncio.CancelledError)}
    assert len(whole) + len(left) + len(cancelled) == CALLS + 50
    assert len(left) == CALLS // 5
    assert cancelled
    abandoned = Counter(id for id, number in service.created.items() if number not in whole)
    assert service.cancelled == abandoned

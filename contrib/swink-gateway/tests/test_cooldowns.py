"""Cooldowns of failing models for all clients of a gateway: threshold and duration."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from serving import Answer, ask

import swink_core as swink
from swink_gateway.policy.config import Config, Source
from swink_gateway.policy.cooldowns import CALLER, LONGEST_COOLDOWN, Cooldowns
from swink_gateway.policy.limits import FailedAttempt, MemoryLedger
from swink_gateway.serving.limits import Limits
from swink_gateway.serving.server import Gateway
from swink_recorder.loopback import Exchange, LoopbackServer
from swink_testing.clock import ManualClock

THRESHOLD = swink.RetryPolicy().circuit_threshold
COOLDOWN = swink.RetryPolicy().circuit_cooldown

START = {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 3}}}
TEXT = [
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}},
    {"type": "content_block_stop", "index": 0},
]
END = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "end_turn"},
        "usage": {"output_tokens": 2},
    },
    {"type": "message_stop"},
]
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class Vendor(LoopbackServer):
    """Anthropic's API: an answer, an empty answer, or a status with a `Retry-After` header."""

    status = 200
    retry_after: str | None = None
    content = True
    says = "refused"

    async def respond(self, exchange: Exchange) -> None:
        if self.status != 200:
            said = {} if self.retry_after is None else {"Retry-After": self.retry_after}
            await exchange.start(self.status, {"Content-Type": "application/json", **said})
            error = {"type": ERROR_TYPES[self.status], "message": self.says}
            await exchange.write(msgspec.json.encode({"type": "error", "error": error}))
        else:
            await exchange.start(200, {"Content-Type": "text/event-stream"})
            for event in [START, *(TEXT if self.content else []), *END]:
                kind = str(event["type"]).encode()
                data = msgspec.json.encode(event)
                await exchange.write(b"event: %s\ndata: %s\n\n" % (kind, data))
        await exchange.end()

    def fail(self, status: int, retry_after: str | None = None) -> None:
        """Refuse requests from now on."""
        self.status = status
        self.retry_after = retry_after

    def recover(self) -> None:
        """Answer requests from now on."""
        self.status = 200
        self.content = True


Asking = Callable[[], Any]


@asynccontextmanager
async def served(
    clock: ManualClock,
    ledger: Any = None,
    retry: swink.RetryPolicy | None = None,
    chain: Sequence[str] = ("anthropic/claude-sonnet-5-5",),
    config: Config | None = None,
) -> AsyncIterator[tuple[Vendor, Asking]]:
    """Serve a vendor's model; yield the vendor, and a function that asks as a client does.

    With a configuration that has keys, the function takes the client's key.
    """
    async with Vendor() as vendor:
        own = {"anthropic": {"base_url": vendor.url, "api_key": "k"}}
        gates = [Cooldowns(ledger or MemoryLedger(clock), clock)]
        async with (
            swink.Client(providers=own, gates=gates, breaker=False, clock=clock) as client,
            Gateway(
                client,
                retry=retry or swink.RetryPolicy(),
                routes={"model": chain},
                config=config,
                limits=Limits(clock=clock),
            ) as gateway,
        ):
            body = {
                "model": "model",
                "max_tokens": 99,
                "messages": [{"role": "user", "content": "Hi"}],
            }

            async def asked(key: str = "") -> Answer:
                return await ask(gateway, "/v1/messages", body, headers={"x-api-key": key})

            yield vendor, asked


async def test_the_retries_of_one_throttled_request_do_not_open_the_circuit() -> None:
    async with served(ManualClock(jump=True)) as (vendor, asked):
        vendor.fail(429, "1")
        assert (await asked()).status == 429
        assert len(vendor.exchanges) >= THRESHOLD
        vendor.recover()
        answer = await asked()
    assert answer.status == 200
    assert "Hello" in answer.body.decode()


async def test_empty_answers_do_not_open_the_circuit() -> None:
    async with served(ManualClock(jump=True)) as (vendor, asked):
        vendor.content = False
        for _ in range(THRESHOLD):
            await asked()
        assert len(vendor.exchanges) >= THRESHOLD
        vendor.recover()
        assert (await asked()).status == 200


KEYS = """
[keys.alice]
key = "${A}"
[keys.bob]
key = "${B}"
"""


async def test_a_rate_limit_that_only_one_key_reaches_closes_the_model_for_this_key_only() -> None:
    clock, config = ManualClock(), Source("t", KEYS).config({"A": "a", "B": "b"})
    none = swink.RetryPolicy.none()
    async with served(clock, retry=none, config=config) as (vendor, asked):
        vendor.fail(429, "3600")
        for _ in range(THRESHOLD):
            await asked("b")
        sent = len(vendor.exchanges)
        assert ((await asked("b")).status, len(vendor.exchanges)) == (429, sent)
        vendor.recover()
        assert (await asked("a")).status == 200
        assert ((await asked("b")).status, len(vendor.exchanges)) == (429, sent + 1)
        await clock.advance(3601)
        assert (await asked("b")).status == 200


async def test_a_rate_limit_that_two_keys_reach_closes_the_model_for_all() -> None:
    clock, config = ManualClock(), Source("t", KEYS).config({"A": "a", "B": "b"})
    none = swink.RetryPolicy.none()
    async with served(clock, retry=none, config=config) as (vendor, asked):
        vendor.fail(429, "3600")
        for _ in range(THRESHOLD):
            await asked("b")
        for _ in range(THRESHOLD):
            await asked("a")
        sent = len(vendor.exchanges)
        for key in ("a", "b"):
            assert (await asked(key)).status == 429
        assert len(vendor.exchanges) == sent


async def test_only_the_key_that_a_vendor_refused_reads_the_vendors_message() -> None:
    clock, config = ManualClock(), Source("t", KEYS).config({"A": "a", "B": "b"})
    none = swink.RetryPolicy.none()
    async with served(clock, retry=none, config=config) as (vendor, asked):
        vendor.fail(503, "3600")
        vendor.says = "no capacity for the prompt of alice"
        for _ in range(THRESHOLD):
            assert vendor.says in (await asked("a")).body.decode()
        refused = (await asked("b")).body.decode()
    assert len(vendor.exchanges) == THRESHOLD
    assert vendor.says not in refused
    assert "the model is failing: overloaded (5 requests in a row)" in refused


async def test_few_of_the_models_that_clients_name_are_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("swink_gateway.policy.cooldowns.MOST_LIMITED", 3)
    cooldowns = Cooldowns()
    CALLER.set("alice")
    kinds = (swink.StreamErrorKind.OVERLOADED, swink.StreamErrorKind.THROTTLED)
    async with swink.Client() as client:
        for number in range(10):
            target = client.target(f"echo/{number}")
            for kind in kinds:
                cooldowns.leave(target, swink.Error(error_message="", error_kind=kind), None)
            await cooldowns.enter(target)
    assert 0 < len(cooldowns._failing) <= 3
    assert 0 < len(cooldowns._own_failing) <= 3


@pytest.mark.parametrize("status", [400, 401, 413])
async def test_rejected_requests_do_not_open_the_circuit(status: int) -> None:
    async with served(ManualClock(jump=True)) as (vendor, asked):
        vendor.fail(status)
        for _ in range(2 * THRESHOLD):
            await asked()
        assert len(vendor.exchanges) == 2 * THRESHOLD
        vendor.recover()
        assert (await asked()).status == 200


WAITS = {"1": 1, "2.5": 2.5, "300": 300, "31536000": LONGEST_COOLDOWN}
"""A vendor's `Retry-After`, and the expected cooldown in seconds."""


@pytest.mark.parametrize("said", WAITS)
async def test_a_cooldown_lasts_for_exactly_the_vendors_retry_after(said: str) -> None:
    clock = ManualClock()
    async with served(clock, retry=swink.RetryPolicy.none()) as (vendor, asked):
        vendor.fail(429, said)
        for number in range(THRESHOLD):
            assert len(vendor.exchanges) == number
            assert (await asked()).status == 429
        vendor.recover()
        await clock.advance(WAITS[said] - 0.25)
        refused = await asked()
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert len(vendor.exchanges) == THRESHOLD
        await clock.advance(0.25)
        answers = await asyncio.gather(*(asked() for _ in range(3)))  # all at once
    assert [answer.status for answer in answers] == [200] * 3


async def test_the_only_model_is_tried_without_a_retry_after() -> None:
    async with served(ManualClock(), retry=swink.RetryPolicy.none()) as (vendor, asked):
        vendor.fail(503)
        for number in range(2 * THRESHOLD):
            assert len(vendor.exchanges) == number
            refused = await asked()
            assert refused.status == 503
            assert "Retry-After" not in refused.headers
        vendor.recover()
        assert (await asked()).status == 200


async def test_without_a_time_from_the_vendor_one_request_probes_after_the_cooldown() -> None:
    clock, chain = ManualClock(), ["anthropic/claude-sonnet-5-5", "anthropic/claude-haiku-4-5"]
    async with served(clock, retry=swink.RetryPolicy.none(), chain=chain) as (vendor, asked):

        def first() -> int:
            return sum(b"sonnet" in exchange.body for exchange in vendor.exchanges)

        vendor.fail(429)
        for _ in range(THRESHOLD):
            await asked()
        assert first() == THRESHOLD
        await asked()
        assert first() == THRESHOLD
        await clock.advance(COOLDOWN)
        for _ in range(2):
            assert (await asked()).status == 503
            assert first() == THRESHOLD + 1


class FullDisk(MemoryLedger):
    """A ledger that can be neither read nor written."""

    async def circuit(self, target: str) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    async def failed(self, target: str, failed: FailedAttempt) -> None:
        raise sqlite3.OperationalError("database or disk is full")


async def test_a_ledger_that_fails_does_not_stop_a_request(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock(jump=True)
    async with served(clock, FullDisk(clock)) as (vendor, asked):
        vendor.fail(503)
        assert (await asked()).status == 503
        vendor.recover()
        assert (await asked()).status == 200
    lines = {record.getMessage() for record in caplog.records if "circuit" in record.getMessage()}
    assert lines == {
        "a circuit could not be read, so the request is sent: database or disk is full",
        "a circuit could not be stored: database or disk is full",
    }

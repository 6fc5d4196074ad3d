"""The charge of each attempt beside the vendor's own bill."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

import swink
from lab.vendor import Fault, Vendor

OPENAI = "openai/gpt-5.4-mini"
CLAUDE = "anthropic/claude-haiku-4-5"
GEMINI = "gemini/gemini-3.6-flash"
MODELS = (OPENAI, CLAUDE, GEMINI)

PROMPTS = {
    "latin": "many words here " * 500,
    "cjk": "東京の天気はどうですか。" * 300,
    "code": "def add(a: int, b: int) -> int:\n    return a + b\n" * 100,
    "emoji": "👍🎉 " * 300,
    "cyrillic": "Широкая электрификация южных губерний. " * 150,
}

SOME = 0.9
"""The part of the bill that an estimate has to reach: estimates are not exact."""

SOME_OF_CODE = 0.7
"""The same for code, which the vendor's tokenizer splits more finely than real ones."""

AGAIN = swink.RetryPolicy(
    retries=dict.fromkeys(swink.StreamErrorKind, 3), base=0.0, restart_after_output=True
)


def providers(vendor: Vendor) -> dict[str, dict[str, Any]]:
    return {
        "openai": {"base_url": f"{vendor.url}/v1", "api_key": "key-alpha"},
        "anthropic": {"base_url": vendor.url, "api_key": "key-alpha"},
        "gemini": {"base_url": vendor.url, "api_key": "key-alpha"},
    }


def billed(vendor: Vendor) -> float:
    return float(Decimal(vendor.state.bill()["total"]["cost"]))


def cost_in(client: swink.Client) -> float:
    assert client.charge.cost is not None
    return client.charge.cost


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("model", MODELS)
async def test_reported_usage_is_charged_as_billed(model: str, prompt: str) -> None:
    async with Vendor() as vendor, swink.Client(providers=providers(vendor)) as client:
        stream = client.stream(model, PROMPTS[prompt])
        message = await stream.result()
        await vendor.idle()
        assert cost_in(client) == pytest.approx(billed(vendor))
    assert not client.charge.estimated
    assert message.total_cost is not None
    assert stream.call.charge.cost == message.total_cost.total == client.charge.cost
    assert stream.call.attempt.charge == stream.call.charge


SCRIPT = f" [[vendor {json.dumps({'parts': [{'tokens': 40}]})}]]"


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("events", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_a_hang_up_is_charged_at_least_the_estimate(
    model: str, prompt: str, events: int
) -> None:
    """Leave after so many events; 0: while the vendor thinks."""
    slow = 0.3 if not events else 0.0
    async with (
        Vendor(first_token=slow, tokens_per_second=300) as vendor,
        swink.Client(providers=providers(vendor)) as client,
    ):
        stream = client.stream(model, PROMPTS[prompt] + SCRIPT)
        seen = 0
        with suppress(TimeoutError):
            async with stream, asyncio.timeout(0.15 if not events else None):
                async for _ in stream:
                    seen += 1
                    if events and seen > events:
                        break
        await vendor.idle()
        part = SOME_OF_CODE if prompt == "code" else SOME
        assert cost_in(client) >= billed(vendor) * part
        assert stream.call.cost is not None
        assert stream.call.cost.total == client.charge.cost


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("after", [1, 5, 20])
async def test_each_attempt_that_is_cut_is_charged(model: str, after: int) -> None:
    async with (
        Vendor() as vendor,
        swink.Client(providers=providers(vendor), retry=AGAIN) as client,
    ):
        vendor.state.faults.add(Fault("cut", after=after, times=2))
        stream = client.stream(model, PROMPTS["latin"] + SCRIPT)
        await stream.result()
        await vendor.idle()
        total = vendor.state.bill()["total"]
        assert total["attempts"] == stream.call.attempts == 3
        assert cost_in(client) >= billed(vendor) * SOME
        assert client.charge.estimated


async def test_a_fallback_charges_both_models() -> None:
    async with (
        Vendor() as vendor,
        swink.Client(providers=providers(vendor), retry=swink.RetryPolicy.none()) as client,
    ):
        vendor.state.faults.add(Fault("cut", after=0, times=1))
        stream = client.stream([OPENAI, CLAUDE], PROMPTS["cjk"] + SCRIPT)
        with suppress(swink.StreamError):
            await stream.result()
        await vendor.idle()
        assert cost_in(client) >= billed(vendor) * SOME


async def test_many_calls_at_once_add_up_to_the_bill() -> None:
    async with Vendor() as vendor, swink.Client(providers=providers(vendor)) as client:
        prompts = [*PROMPTS.values()] * 6
        await asyncio.gather(*(client.complete(OPENAI, prompt) for prompt in prompts))
        await vendor.idle()
        assert cost_in(client) == pytest.approx(billed(vendor))


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_an_http_error_costs_nothing(status: int) -> None:
    async with (
        Vendor() as vendor,
        swink.Client(providers=providers(vendor), retry=swink.RetryPolicy.none()) as client,
    ):
        vendor.state.faults.add(Fault("status", status=status, times=9))
        with pytest.raises(swink.StreamError):
            await client.complete(OPENAI, "Hi")
        await vendor.idle()
        assert client.charge == swink.Charge()
        assert billed(vendor) == 0


async def test_an_attempt_that_reaches_no_server_costs_nothing() -> None:
    nowhere = {"openai": {"base_url": "http://127.0.0.1:9/v1", "api_key": "k"}}
    async with swink.Client(providers=nowhere, retry=swink.RetryPolicy.none()) as client:
        with pytest.raises(swink.StreamError):
            await client.complete(OPENAI, PROMPTS["latin"])
    assert client.charge == swink.Charge()
    assert client.cost is None

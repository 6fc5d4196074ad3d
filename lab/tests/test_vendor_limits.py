"""Limits of calls, runs and many prompts, beside the vendor's own bill."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from typing import Any

import pytest

import swink
from lab.vendor import Fault, Vendor

MODEL = "openai/gpt-5.4-mini"

CALLS = {
    "turns": [[{"call": "add", "arguments": {"a": 1}}, {"call": "add", "arguments": {"a": 2}}]] * 9
}
CALLING = f"Add. [[vendor {json.dumps(CALLS)}]]"


def add(a: int) -> str:
    """Add one."""
    added.append(a)
    return str(a + 1)


added: list[int] = []


def client_of(vendor: Vendor, **given: Any) -> swink.Client:
    openai = {"base_url": f"{vendor.url}/v1", "api_key": "key-alpha"}
    return swink.Client(providers={"openai": openai}, **given)


def billed(vendor: Vendor) -> float:
    return float(Decimal(vendor.state.bill()["total"]["cost"]))


@pytest.mark.parametrize("prompt", ["many words here " * 300, "東京の天気はどうですか。" * 200])
async def test_calls_at_once_stay_within_a_limit_of_cost(prompt: str) -> None:
    budget = 0.01
    again = swink.RetryPolicy(
        retries=dict.fromkeys(swink.StreamErrorKind, 2), base=0.0, restart_after_output=True
    )
    async with (
        Vendor() as vendor,
        client_of(vendor, limits=swink.Limits(cost=budget), max_tokens=300, retry=again) as client,
    ):
        vendor.state.faults.add(Fault("cut", after=3, times=5))
        calls = (client.complete(MODEL, prompt) for _ in range(60))
        ended = await asyncio.gather(*calls, return_exceptions=True)
        await vendor.idle()
        assert 0 < billed(vendor) <= budget
    assert any(isinstance(each, swink.LimitReached) for each in ended)


async def test_gather_shares_its_limits() -> None:
    async with Vendor() as vendor, client_of(vendor) as client:
        batch = await client.gather(
            MODEL, ["Hi"] * 12, limits=swink.Limits(requests=5), max_tokens=20
        )
        await vendor.idle()
        assert vendor.state.bill()["total"]["attempts"] == 5
    assert len(batch.answers) == 5
    assert sum(isinstance(each, swink.LimitReached) for each in batch) == 7


@pytest.mark.parametrize(
    ("limits", "turns", "calls"),
    [
        (swink.Limits(turns=2), 2, 4),
        (swink.Limits(tool_calls=3), 2, 2),
        (swink.Limits(requests=3), 3, 6),
        (swink.Limits(tool_calls=0), 1, 0),
    ],
)
async def test_a_run_stops_at_its_limits(limits: swink.Limits, turns: int, calls: int) -> None:
    added.clear()
    async with Vendor() as vendor, client_of(vendor) as client:
        run = client.run(MODEL, CALLING, tools=[add], limits=limits, max_turns=8)
        async with run:
            with pytest.raises(swink.LimitReached) as caught:
                await run.result()
        await vendor.idle()
        assert vendor.state.bill()["total"]["attempts"] == turns
    assert len(added) == calls
    assert run.outcome == "error"
    assert caught.value.partial is not None

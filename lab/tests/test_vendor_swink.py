"""swink before the vendor, from outside: each provider's own bill, failures and accounts."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import swink
from lab.vendor import Fault, Vendor
from lab.vendor.record import Exchange
from swink_batch import run, via_batch
from swink_core.providers import LoopClock

ANSWER = "It is three, 東京 🌊."
TURNS = [
    [
        {"thought": "Hm, let me see"},
        {"call": "add", "arguments": {"a": 1}},
        {"call": "add", "arguments": {"a": 2}},
    ],
    [{"text": ANSWER}],
]
MODELS = [
    "openai/gpt-6.2-sol",
    "openai/gpt-4.1",
    "anthropic/claude-sonnet-5-5",
    "gemini/gemini-3.6-flash",
    "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0",
    "bedrock/global.anthropic.claude-haiku-4-5-20251001-v1:0",
    "cohere/command-a-reasoning-08-2025",
    "ollama/qwen3",
    "deepseek/deepseek-flash",
    "mistral/mistral-large-latest",
]
PATHS = {"openai": "/v1", "deepseek": "/deepseek", "mistral": "/mistral/v1"}


def add(a: int) -> str:
    """Add one."""
    return str(a + 1)


def providers(vendor: Vendor, key: str = "key-alpha") -> dict[str, dict[str, Any]]:
    names = {model.partition("/")[0] for model in MODELS}
    return {name: {"base_url": vendor.url + PATHS.get(name, ""), "api_key": key} for name in names}


def last(vendor: Vendor) -> Exchange:
    return vendor.state.record.exchanges[-1]


class Noon(LoopClock):
    """A clock at noon: the vendor's bill has no prices by the hour."""

    def now(self) -> datetime:
        return datetime(2026, 11, 25, 12, tzinfo=UTC)


@pytest.mark.parametrize("model", MODELS)
def test_a_tool_loop_with_thoughts_has_the_vendors_text_usage_and_cost(model: str) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            prompt = f"Add. [[vendor {json.dumps({'turns': TURNS})}]]"
            async with (
                swink.Client(providers=providers(vendor), clock=Noon()) as client,
                client.run(model, prompt, tools=[add]) as run,
            ):
                async for _ in run:
                    pass
                message = run.message
            assert message.text == ANSWER
            assert [each.status for each in vendor.state.record.exchanges if each.produced] == [
                200,
                200,
            ]
            charge = last(vendor).charge
            assert charge is not None
            assert message.usage is not None
            assert message.usage.input == charge.usage.uncached
            assert message.usage.output == charge.usage.output
            if message.cost is not None:
                assert message.cost.total == pytest.approx(float(charge.cost))

    asyncio.run(test())


KINDS = [
    (Fault("rate_limit"), "throttled"),
    (Fault("overload"), "overloaded"),
    (Fault("overflow"), "context_window_exceeded"),
    (Fault("auth"), "auth"),
    (Fault("overload", after=2), "overloaded"),
    (Fault("cut", after=2), "network"),
    (Fault("empty", after=2), "network"),
    (Fault("damaged", after=2), "protocol"),
]


@pytest.mark.parametrize(("fault", "kind"), KINDS, ids=str)
@pytest.mark.parametrize("model", MODELS[:5])
def test_a_fault_has_its_kind(model: str, fault: Fault, kind: str) -> None:
    async def test() -> None:
        async with Vendor() as vendor:
            vendor.state.faults.add(fault)
            async with swink.Client(providers=providers(vendor), retry=False) as client:
                with pytest.raises(swink.StreamError) as raised:
                    await client.complete(model, "Hello, please answer with some words.")
            assert raised.value.kind == kind

    asyncio.run(test())


@pytest.mark.parametrize("model", MODELS[:5])
def test_a_client_that_leaves_ends_the_vendors_bill(model: str) -> None:
    async def test() -> None:
        async with Vendor(tokens_per_second=200) as vendor:
            script = json.dumps({"parts": [{"tokens": 400}]})
            async with swink.Client(providers=providers(vendor)) as client:
                async with client.stream(model, f"Talk. [[vendor {script}]]") as stream:
                    async for _ in stream.text:
                        break
                await vendor.idle()
            exchange = last(vendor)
            assert exchange.ended == "hung up"
            assert exchange.charge is not None
            assert 0 < exchange.charge.usage.output < 400

    asyncio.run(test())


@pytest.mark.parametrize(
    "model", ["openai/gpt-6-luna", "anthropic/claude-haiku-5-5", "gemini/gemini-3.6-flash"]
)
def test_a_vendors_batch_costs_what_the_vendor_charges(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(via_batch, "FIRST_POLL", 0.0001)

    async def test() -> None:
        async with Vendor() as vendor:
            rows = [{"id": f"row {at}", "prompt": f"Say {at}"} for at in range(4)]
            settings = {"providers": providers(vendor)}
            tally = await run(model, rows, tmp_path / "out.jsonl", via="batch", client=settings)
            charges = vendor.state.record.charges("alpha")
            assert tally.answered == len(charges) == 4
            assert {charge.tier for charge in charges} == {"batch"}
            assert tally.cost == pytest.approx(float(sum(charge.cost for charge in charges)))

    asyncio.run(test())


def test_the_example_of_a_test_in_the_readme_passes() -> None:
    readme = Path(__file__).parents[1] / "vendor" / "README.md"
    blocks = re.findall(r"```python\n(.*?)```", readme.read_text("utf-8"), re.DOTALL)
    [example] = [block for block in blocks if "async def test_" in block]
    names: dict[str, Any] = {}
    exec(example, names)
    [test] = [value for name, value in names.items() if name.startswith("test_")]
    asyncio.run(test())

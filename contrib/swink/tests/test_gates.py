"""Budgets written as gates in different ways, in front of a server on loopback: each one holds."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import swink
from swink_recorder.loopback import Exchange, LoopbackServer

MODEL = "openai/gpt-4o"

ANSWER = (
    b'data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":"Hi."},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}'
    b"\n\ndata: [DONE]\n\n"
)


class Vendor(LoopbackServer):
    """Answers every request in five tokens and counts the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0

    async def respond(self, exchange: Exchange) -> None:
        self.requests += 1
        await exchange.start(headers={"Content-Type": "text/event-stream"})
        await exchange.write(ANSWER)
        await exchange.end()


class OwnError(Exception):
    """An exception that swink does not know."""


class Budget:
    """Admits attempts until five tokens are spent, then raises `refusal`."""

    def __init__(self, refusal: Exception) -> None:
        self.refusal = refusal
        self.spent = 0

    async def enter(self, target: Any) -> None:
        if self.spent >= 5:
            raise self.refusal

    def leave(self, target: Any, terminal: swink.Done | swink.Error, response: Any) -> None:
        usage = terminal.usage or swink.Usage()
        self.spent += usage.total or 0


SPENT = "the budget is spent"
QUOTA = swink.StreamErrorKind.QUOTA_EXHAUSTED
WRITTEN: list[tuple[str, Exception, type[swink.StreamError]]] = [
    ("own exception", OwnError(SPENT), swink.PluginFault),
    ("stream error", swink.QuotaExhausted(SPENT), swink.QuotaExhausted),
    (
        "provider failure",
        swink.ProviderFailure(swink.Failure("request", kind=QUOTA, message=SPENT)),
        swink.QuotaExhausted,
    ),
    ("wrong arguments", TypeError(SPENT), swink.PluginFault),
]


@pytest.mark.parametrize(("refusal", "kind"), [r[1:] for r in WRITTEN], ids=[r[0] for r in WRITTEN])
def test_a_spent_budget_stops_every_further_request(
    refusal: Exception, kind: type[swink.StreamError]
) -> None:
    budget = Budget(refusal)
    assert isinstance(budget, swink.Gate)
    with Vendor() as vendor, swink.SyncClient(gates=[budget]) as client:
        to_vendor: Any = {"base_url": vendor.url, "api_key": "k", "settings": {"api": "chat"}}
        assert client.complete(MODEL, "Hi", **to_vendor).text == "Hi."
        for _ in range(2):
            with pytest.raises(kind, match=SPENT):
                client.complete([(MODEL, to_vendor), (MODEL, to_vendor)], "Hi", retry=False)
        assert vendor.requests == 1


@pytest.mark.parametrize(
    "arguments",
    [(QUOTA, SPENT), ("no phase",), ("request", "429"), {"phase": "request", "kind": "spent"}],
)
def test_a_gate_that_describes_its_refusal_wrongly_is_named(arguments: Any) -> None:
    class Mistaken(Budget):
        async def enter(self, target: Any) -> None:
            if isinstance(arguments, dict):
                raise swink.ProviderFailure(swink.Failure(**arguments))
            raise swink.ProviderFailure(swink.Failure(*arguments))

    with Vendor() as vendor, swink.SyncClient(gates=[Mistaken(OwnError())]) as client:
        with pytest.raises(swink.PluginFault, match=r"gate Mistaken raised .*test_gates\.py:"):
            client.complete([(MODEL, {"base_url": vendor.url}), MODEL], "Hi", api_key="k")
        assert vendor.requests == 0


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_a_refusal_can_be_copied_and_pickled(copied: Callable[[Any], Any]) -> None:
    failure = swink.Failure("request", kind=QUOTA, message=SPENT, resolution="Raise the budget.")
    refusal = copied(swink.ProviderFailure(failure))
    assert (type(refusal), refusal.failure) == (swink.ProviderFailure, failure)
    assert str(refusal) == f"{SPENT}\nRaise the budget."


def test_a_budget_that_fails_to_count_stops_the_next_request() -> None:
    class Miscounting(Budget):
        def leave(self, target: Any, terminal: Any, response: Any) -> None:
            self.spent += terminal.usage.totals

    with Vendor() as vendor, swink.SyncClient(gates=[Miscounting(OwnError())]) as client:
        to_vendor: Any = {"base_url": vendor.url, "api_key": "k", "settings": {"api": "chat"}}
        client.complete(MODEL, "Hi", **to_vendor)
        with pytest.raises(swink.PluginFault) as raised:
            client.complete(MODEL, "Hi", **to_vendor)
        assert "gate Miscounting raised AttributeError in leave" in raised.value.message
        assert "test_gates.py:" in raised.value.message
        assert vendor.requests == 1

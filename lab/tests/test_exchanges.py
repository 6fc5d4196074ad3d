"""A few exchanges of each kind agree with the record of the simulated vendor."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from aiohttp import ClientSession

import swink
from lab.exchanges import failures
from lab.exchanges.plan import KINDS, plan_of
from lab.exchanges.protocols import PROTOCOLS
from lab.exchanges.totals import run
from lab.vendor import Vendor, engine
from lab.vendor.accounts import Accounts
from lab.vendor.ask import Ask
from lab.vendor.bill import Charge, Usage, charge
from lab.vendor.catalog import Model
from swink_gateway.serving.server import Gateway

_KINDS = sorted(KINDS.keys() - {"kill"})
_SEED = 52


@pytest.mark.parametrize("kind", _KINDS)
def test_exchanges_of_each_kind_agree_with_the_record(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    totals = run(_SEED, range(3), kind, at_once=4)
    assert capsys.readouterr().out == ""
    assert totals.kinds == {kind: 3}
    assert totals.counts["requests"] >= 1


def test_another_process_can_import_what_runs_exchanges() -> None:
    assert b"__main__" not in pickle.dumps(run)


def test_a_plan_is_the_same_again_for_its_seed_and_number() -> None:
    plans = [plan_of(_SEED, number) for number in range(50)]
    assert plans == [plan_of(_SEED, number) for number in range(50)]
    assert {plan.kind for plan in plans} > {"stream", "chat", "messages"}
    assert max(talk.turns for plan in plans for talk in plan.conversations) > 30


def test_a_call_whose_name_was_damaged_is_read_without_a_name() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "", "arguments": "{}"}}
    chunk = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}
    seen = PROTOCOLS["chat"].events([chunk, {"error": {"message": "damaged"}}, "[DONE]"])
    assert [each.name for each in seen.calls] == [""]
    assert seen.failed is not None
    assert seen.problems == []


def test_a_wrong_bill_is_a_disagreement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def dearer(account: str, provider: str, model: Model, usage: Usage, tier: str) -> Charge:
        return charge(account, provider, replace(model, output=model.output + 1), usage, tier)

    monkeypatch.setattr(engine, "charge", dearer)
    assert run(_SEED, range(3), "complete", at_once=3).bad >= 1
    assert "bill" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["stream", "chat"])
def test_a_prompt_longer_than_the_context_must_fail_for_that_reason(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Ask, "prompt_tokens", 10**8)
    totals = run(_SEED, range(3), kind, at_once=3)
    assert capsys.readouterr().out == ""
    assert totals.counts["failed"] >= 2
    monkeypatch.setattr(failures, "TOO_LONG", "no prompt")
    assert run(_SEED, range(3), kind, at_once=3).bad >= 2
    assert "prompt is too long" in capsys.readouterr().out


def test_another_tenant_is_a_disagreement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Accounts, "of", lambda self, key: "initech")
    assert run(_SEED, range(2), "chat", at_once=2).bad >= 1
    assert "tenant" in capsys.readouterr().out


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages"])
async def test_a_call_that_a_model_does_not_support_has_a_status_after_a_request_about_it(
    path: str,
) -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    if path == "/v1/messages":
        source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
        image = {"type": "image", "source": source}  # type: ignore[dict-item]  # of JSON
    said = [{"role": "user", "content": [image]}]
    body = {"model": "ollama/llama3.2", "stream": True, "max_tokens": 9, "messages": said}
    if path == "/v1/responses":
        body = {"model": "ollama/llama3.2", "stream": True, "input": said}
    async with Vendor() as vendor:
        own = {"ollama": {"base_url": vendor.url, "api_key": "key-alpha"}}
        async with (
            swink.Client(providers=own) as client,
            Gateway(client) as gateway,
            ClientSession() as session,
        ):
            response = await session.post(gateway.url + path, json=body)
            assert response.status == 400
        assert [exchange.path for exchange in vendor.state.record.exchanges] == ["/api/show"]

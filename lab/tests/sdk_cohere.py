"""The vendor before the cohere SDK."""

from __future__ import annotations

import json
from typing import Any

import cohere
import cohere.core
import pytest

from lab.tests.vendor_sdk import (
    ANSWER,
    CALLS,
    SCHEMA,
    THOUGHT,
    last,
    refused_with,
    scripted,
    vendor,
)
from lab.vendor import Fault, Vendor

__all__ = ["vendor"]

# newest SDKs leave sockets to the collector, and warn of models that retire
pytestmark = pytest.mark.filterwarnings("default")

MODEL = "command-a-reasoning-08-2025"
TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}
OPTIONS: Any = {"max_retries": 0}


def client(vendor: Vendor, key: str = "key-alpha") -> cohere.ClientV2:
    return cohere.ClientV2(api_key=key, base_url=vendor.url)


def test_thoughts_and_calls_come_whole_and_the_answer_is_streamed(vendor: Vendor) -> None:
    messages: list[Any] = [{"role": "user", "content": scripted()}]
    first = client(vendor).chat(model=MODEL, messages=messages, tools=[TOOL])
    calls = first.message.tool_calls or []
    arguments = [call.function.arguments for call in calls if call.function]
    assert [json.loads(each or "") for each in arguments] == CALLS
    [thought] = first.message.content or []
    assert getattr(thought, "thinking", None) == THOUGHT
    messages.append({"role": "assistant", "tool_calls": [call.model_dump() for call in calls]})
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "3"} for call in calls]
    stream = client(vendor).chat_stream(model=MODEL, messages=messages, tools=[TOOL])
    events: list[Any] = list(stream)
    deltas = [event for event in events if event.type == "content-delta"]
    assert "".join(event.delta.message.content.text or "" for event in deltas) == ANSWER
    charge = last(vendor).charge
    assert charge is not None
    assert events[-1].type == "message-end"
    assert events[-1].delta.usage.tokens.output_tokens == charge.usage.output


@pytest.mark.parametrize(
    ("fault", "status"),
    [(Fault("overload"), 503), (Fault("rate_limit"), 429), (Fault("server"), 500)],
    ids=lambda each: str(each),
)
def test_faults_raise_the_sdks_own_errors(vendor: Vendor, fault: Fault, status: int) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    raised = refused_with(
        vendor,
        fault,
        cohere.core.ApiError,
        lambda: client(vendor).chat(model=MODEL, messages=messages, request_options=OPTIONS),
    )
    assert isinstance(raised, cohere.core.ApiError)
    assert raised.status_code == status


def test_models_an_unknown_key_and_a_broken_rule(vendor: Vendor) -> None:
    assert MODEL in [model.name for model in client(vendor).models.list().models]
    messages: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(cohere.UnauthorizedError):
        client(vendor, "unknown").chat(model=MODEL, messages=messages)
    with pytest.raises(cohere.BadRequestError, match="temperature"):
        client(vendor).chat(model=MODEL, messages=messages, temperature=2)

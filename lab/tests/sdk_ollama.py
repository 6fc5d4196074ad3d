"""The vendor before the ollama SDK."""

from __future__ import annotations

from typing import Any

import ollama
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

TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}


def test_thoughts_and_calls_are_streamed_and_come_back(vendor: Vendor) -> None:
    client = ollama.Client(host=vendor.url)
    messages: list[Any] = [{"role": "user", "content": scripted()}]
    for _ in range(2):
        chunks = list(client.chat(model="qwen3", messages=messages, tools=[TOOL], stream=True))
        calls = [call for chunk in chunks for call in chunk.message.tool_calls or []]
        if calls:
            thoughts = [chunk.message.thinking or "" for chunk in chunks]
            assert "".join(thoughts) == THOUGHT
            assert [dict(call.function.arguments) for call in calls] == CALLS
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        messages += [{"role": "tool", "tool_name": "add", "content": "3"} for _ in calls]
    assert "".join(chunk.message.content or "" for chunk in chunks) == ANSWER
    charge = last(vendor).charge
    assert charge is not None
    assert chunks[-1].eval_count == charge.usage.output
    assert chunks[-1].prompt_eval_count == charge.usage.prompt


@pytest.mark.parametrize(
    ("fault", "status"),
    [(Fault("overload"), 503), (Fault("rate_limit"), 429), (Fault("server", after=2), -1)],
    ids=lambda each: str(each),
)
def test_faults_raise_the_sdks_own_errors(vendor: Vendor, fault: Fault, status: int) -> None:
    client = ollama.Client(host=vendor.url)
    messages: Any = [{"role": "user", "content": "hi"}]
    raised = refused_with(
        vendor,
        fault,
        ollama.ResponseError,
        lambda: list(client.chat(model="qwen3", messages=messages, stream=True)),
    )
    assert isinstance(raised, ollama.ResponseError)
    assert raised.status_code == status


def test_models_and_a_broken_rule(vendor: Vendor) -> None:
    client = ollama.Client(host=vendor.url)
    names = [model.model for model in client.list().models]
    assert "qwen3:latest" in names
    assert "thinking" in (client.show("qwen3").capabilities or [])
    messages: Any = [{"role": "user", "content": "hi"}]
    with pytest.raises(ollama.ResponseError, match="not found"):
        client.chat(model="missing-model", messages=messages)
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        client.chat(model="llama3.2", messages=messages, think=True)

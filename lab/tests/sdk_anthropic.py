"""The vendor before the anthropic SDK."""

from __future__ import annotations

from typing import Any

import anthropic
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

MODEL = "claude-sonnet-4-6"
THINKING: Any = {"type": "adaptive"}
TOOL: Any = {"name": "add", "description": "Add.", "input_schema": SCHEMA}


def client(vendor: Vendor, key: str = "key-alpha") -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=vendor.url, api_key=key, max_retries=0)


def test_thoughts_and_calls_are_streamed_and_come_back(vendor: Vendor) -> None:
    messages: list[Any] = [{"role": "user", "content": scripted()}]
    for _ in range(2):
        with client(vendor).messages.stream(
            model=MODEL, max_tokens=2000, messages=messages, tools=[TOOL], thinking=THINKING
        ) as stream:
            final = stream.get_final_message()
        calls = [block for block in final.content if block.type == "tool_use"]
        if calls:
            assert [call.input for call in calls] == CALLS
            assert final.content[0].type == "thinking"
            assert final.content[0].thinking == THOUGHT
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": "3"} for call in calls
        ]
        messages.append({"role": "assistant", "content": final.content})
        messages.append({"role": "user", "content": results})
    assert final.content[0].type == "text"
    assert final.content[0].text == ANSWER
    charge = last(vendor).charge
    assert charge is not None
    assert final.usage.input_tokens == charge.usage.uncached
    assert final.usage.output_tokens == charge.usage.output
    foreign = client(vendor, "key-beta").messages
    with pytest.raises(anthropic.BadRequestError, match="signature"):
        foreign.create(
            model=MODEL, max_tokens=9, messages=messages[:-2], tools=[TOOL], thinking=THINKING
        )


ERRORS = [
    (Fault("rate_limit", retry_after=1), anthropic.RateLimitError),
    (Fault("overload"), anthropic.InternalServerError),
    (Fault("server"), anthropic.InternalServerError),
    (Fault("overflow"), anthropic.BadRequestError),
    (Fault("status", status=403), anthropic.PermissionDeniedError),
    (Fault("status", status=413), anthropic.APIStatusError),
    (Fault("cut"), anthropic.APIConnectionError),
    (Fault("overload", after=2), anthropic.APIStatusError),
]


@pytest.mark.parametrize(("fault", "error"), ERRORS, ids=lambda each: str(each))
def test_faults_raise_the_sdks_own_errors(
    vendor: Vendor, fault: Fault, error: type[Exception]
) -> None:
    def call() -> None:
        messages: Any = [{"role": "user", "content": "hi"}]
        list(
            client(vendor).messages.create(
                model=MODEL, max_tokens=100, messages=messages, stream=True
            )
        )

    refused_with(vendor, fault, error, call)


def test_an_unknown_key_and_a_broken_rule(vendor: Vendor) -> None:
    with pytest.raises(anthropic.AuthenticationError):
        client(vendor, "unknown").models.list()
    with pytest.raises(anthropic.BadRequestError, match="thinking"):
        client(vendor).messages.create(
            model="claude-opus-5-5",
            max_tokens=2000,
            messages=[{"role": "user", "content": "hi"}],
            thinking={"type": "disabled"},
        )


def test_models_counts_files_and_batches(vendor: Vendor) -> None:
    assert MODEL in [model.id for model in client(vendor).models.list()]
    messages: Any = [{"role": "user", "content": "hi"}]
    counted = client(vendor).messages.count_tokens(model=MODEL, messages=messages)
    params: Any = {"model": MODEL, "max_tokens": 50, "messages": messages}
    batch = client(vendor).messages.batches.create(
        requests=[{"custom_id": "a", "params": params}, {"custom_id": "b", "params": {}}]  # type: ignore[typeddict-item] # refused
    )
    batch = client(vendor).messages.batches.retrieve(batch.id)
    assert batch.processing_status == "ended"
    results = list(client(vendor).messages.batches.results(batch.id))
    assert [each.result.type for each in results] == ["succeeded", "errored"]
    [charge] = vendor.state.record.charges()
    assert charge.usage.prompt == counted.input_tokens
    file = client(vendor).beta.files.upload(file=("a.txt", b"hello", "text/plain"))
    with pytest.raises(anthropic.NotFoundError):
        client(vendor, "key-beta").beta.files.retrieve_metadata(file.id)
    client(vendor).beta.files.delete(file.id)

"""The vendor before the mistralai SDK."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mistralai.client import Mistral
from mistralai.client.errors import SDKError

from lab.tests.vendor_sdk import ANSWER, CALLS, SCHEMA, last, refused_with, scripted, vendor
from lab.vendor import Fault, Vendor

__all__ = ["vendor"]

# newest SDKs leave sockets to the collector, and warn of models that retire
pytestmark = pytest.mark.filterwarnings("default")

MODEL = "mistral-large-latest"
TOOL: Any = {"type": "function", "function": {"name": "add", "parameters": SCHEMA}}


def client(vendor: Vendor, key: str = "key-alpha") -> Mistral:
    return Mistral(api_key=key, server_url=f"{vendor.url}/mistral")


def test_two_calls_are_streamed_and_then_an_answer(vendor: Vendor) -> None:
    messages: list[Any] = [{"role": "user", "content": scripted()}]
    found: list[Any] = []
    for _ in range(2):
        events: list[Any] = list(
            client(vendor).chat.stream(model=MODEL, messages=messages, tools=[TOOL])
        )
        deltas = [event.data.choices[0].delta for event in events]
        calls = [call for delta in deltas for call in delta.tool_calls or []]
        found += [json.loads(call.function.arguments) for call in calls]
        messages.append({"role": "assistant", "content": "", "tool_calls": calls})
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "3"} for call in calls]
    assert found == CALLS
    assert "".join(delta.content or "" for delta in deltas) == ANSWER
    charge = last(vendor).charge
    assert charge is not None
    assert events[-1].data.usage.completion_tokens == charge.usage.output


@pytest.mark.parametrize(
    ("fault", "status"),
    [(Fault("overload"), 503), (Fault("rate_limit"), 429), (Fault("auth"), 401)],
    ids=str,
)
def test_faults_raise_the_sdks_own_errors(vendor: Vendor, fault: Fault, status: int) -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    raised = refused_with(
        vendor,
        fault,
        SDKError,
        lambda: client(vendor).chat.complete(model=MODEL, messages=messages),
    )
    assert isinstance(raised, SDKError)
    assert raised.status_code == status


def test_batch_jobs(vendor: Vendor) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}]}
    line = json.dumps({"custom_id": "a", "body": body}).encode()
    mistral = client(vendor)
    file = mistral.files.upload(file={"file_name": "a.jsonl", "content": line}, purpose="batch")
    job = mistral.batch.jobs.create(
        input_files=[file.id], model=MODEL, endpoint="/v1/chat/completions"
    )
    job = mistral.batch.jobs.get(job_id=job.id)
    assert job.status == "SUCCESS"
    assert isinstance(job.output_file, str)
    output = mistral.files.download(file_id=job.output_file).read()
    assert json.loads(output)["response"]["status_code"] == 200
    with pytest.raises(SDKError):
        client(vendor, "key-beta").batch.jobs.get(job_id=job.id)

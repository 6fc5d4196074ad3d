"""The vendor before botocore, which signs requests and checks the frames of streams."""

from __future__ import annotations

from typing import Any

import botocore.config  # type: ignore[import-untyped] # it ships no types
import botocore.eventstream  # type: ignore[import-untyped] # it ships no types
import botocore.exceptions  # type: ignore[import-untyped] # it ships no types
import botocore.session  # type: ignore[import-untyped] # it ships no types
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

MODEL = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
TOOL = {"toolSpec": {"name": "add", "description": "Add.", "inputSchema": {"json": SCHEMA}}}
ERROR = botocore.exceptions.ClientError


def client(vendor: Vendor, key: str = "key-alpha") -> Any:
    session = botocore.session.Session()
    session.set_credentials(key, "secret")
    return session.create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=vendor.url,
        config=botocore.config.Config(retries={"max_attempts": 0}),
    )


def converse(messages: Any) -> dict[str, Any]:
    return {
        "modelId": MODEL,
        "messages": messages,
        "toolConfig": {"tools": [TOOL]},
        "inferenceConfig": {"maxTokens": 4000},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    }


def test_thoughts_and_calls_come_whole_and_the_answer_is_streamed(vendor: Vendor) -> None:
    messages: list[Any] = [{"role": "user", "content": [{"text": scripted()}]}]
    first = client(vendor).converse(**converse(messages))
    message = first["output"]["message"]
    calls = [block["toolUse"] for block in message["content"] if "toolUse" in block]
    assert [call["input"] for call in calls] == CALLS
    thought = message["content"][0]["reasoningContent"]["reasoningText"]
    assert thought["text"] == THOUGHT
    results = [
        {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": "3"}]}}
        for call in calls
    ]
    messages += [message, {"role": "user", "content": results}]
    events = list(client(vendor).converse_stream(**converse(messages))["stream"])
    deltas = [event["contentBlockDelta"] for event in events if "contentBlockDelta" in event]
    assert "".join(delta["delta"].get("text", "") for delta in deltas) == ANSWER
    charge = last(vendor).charge
    assert charge is not None
    usage = events[-1]["metadata"]["usage"]
    assert (usage["inputTokens"], usage["outputTokens"]) == (
        charge.usage.uncached,
        charge.usage.output,
    )
    with pytest.raises(ERROR, match="signature"):
        client(vendor, "key-beta").converse(**converse(messages))


ERRORS = [
    (Fault("rate_limit"), "ThrottlingException"),
    (Fault("overload"), "ServiceUnavailableException"),
    (Fault("overflow"), "ValidationException"),
    (Fault("overload", after=2), "serviceUnavailableException"),
    (Fault("rate_limit", after=2), "throttlingException"),
]


@pytest.mark.parametrize(("fault", "code"), ERRORS, ids=lambda each: str(each))
def test_faults_raise_the_sdks_own_errors(vendor: Vendor, fault: Fault, code: str) -> None:
    messages = [{"role": "user", "content": [{"text": "hi"}]}]
    raised = refused_with(
        vendor,
        fault,
        ERROR,
        lambda: list(client(vendor).converse_stream(**converse(messages))["stream"]),
    )
    assert isinstance(raised, ERROR)
    assert raised.response["Error"]["Code"] == code


def test_an_unknown_key_and_a_damaged_frame(vendor: Vendor) -> None:
    messages = [{"role": "user", "content": [{"text": "hi"}]}]
    with pytest.raises(ERROR, match="UnrecognizedClientException"):
        client(vendor, "unknown").converse(**converse(messages))
    refused_with(
        vendor,
        Fault("damaged", after=2),
        botocore.eventstream.ChecksumMismatch,
        lambda: list(client(vendor).converse_stream(**converse(messages))["stream"]),
    )

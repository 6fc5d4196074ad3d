"""Content other than text is kept through two turns and returns to the API."""

from __future__ import annotations

from typing import Any

import pytest
from converse import CONTENT_TYPE, START, USAGE, block, event

from swink_core import Notice, TextBlock, ThinkingBlock, ToolCallBlock
from swink_provider_bedrock import BedrockProvider
from swink_test_helpers.two_turns import two_turns
from swink_testing.driver import run_bytes

ACTED = {"piiEntities": [{"match": "Ann", "type": "NAME", "action": "ANONYMIZED"}]}
GUARDRAIL: dict[str, Any] = {
    "inputAssessment": {"g1": {"invocationMetrics": {"guardrailProcessingLatency": 3}}},
    "outputAssessments": {"g1": [{"sensitiveInformationPolicy": ACTED}]},
}
FACTS = {
    "metrics": {"latencyMs": 5},
    "performanceConfig": {"latency": "optimized"},
    "serviceTier": {"type": "flex"},
}
FIELDS = {"stop_sequence": "night"}


def answer(**metadata: Any) -> bytes:
    stop = event("messageStop", stopReason="stop_sequence", additionalModelResponseFields=FIELDS)
    end = event("metadata", usage=USAGE, **metadata)
    return START + block(0, {"text": "Good day"}) + stop + end


async def test_what_is_said_of_the_whole_answer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    body = answer(trace={"guardrail": GUARDRAIL}, **FACTS)

    message, sent = await two_turns("bedrock/amazon.nova-pro-v1:0", body, CONTENT_TYPE)

    kept = {"additionalModelResponseFields": FIELDS, "guardrail": GUARDRAIL, **FACTS}
    assert message.metadata == kept
    assert sent["messages"][1] == {"role": "assistant", "content": [{"text": "Good day"}]}


def test_a_guardrail_without_a_reason_says_which_policy_acted() -> None:
    events = run_bytes(BedrockProvider("bedrock"), "any", [answer(trace={"guardrail": GUARDRAIL})])

    told = [found for found in events if isinstance(found, Notice)]
    assert told == [Notice("guardrail", "piiEntities NAME: ANONYMIZED")]


CITED = {
    "title": "Tides",
    "source": "tides.pdf",
    "sourceContent": [{"text": "High water at noon"}],
    "location": {"documentChar": {"documentIndex": 0, "start": 0, "end": 18}},
}


async def test_reasoning_citations_and_calls_go_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    reasoning = ({"reasoningContent": {"text": "Hm."}}, {"reasoningContent": {"signature": "c2ln"}})
    called = {"toolUse": {"toolUseId": "t1", "name": "look"}}
    body = (
        START
        + block(0, *reasoning)
        + block(1, {"text": "At noon."}, {"citation": CITED})
        + block(2, {"toolUse": {"input": '{"at": "noon"}'}}, start=called)
        + event("messageStop", stopReason="tool_use")
        + event("metadata", usage=USAGE)
    )

    message, sent = await two_turns("bedrock/global.anthropic.claude-opus-5-5", body, CONTENT_TYPE)

    thought, said, call = message.content
    assert thought == ThinkingBlock("Hm.", "c2ln")
    assert isinstance(said, TextBlock)
    assert CITED in (said.metadata or {})["citations"]
    assert isinstance(call, ToolCallBlock)
    back = sent["messages"][1]["content"]
    assert back[0] == {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    assert "At noon." in str(back[1])
    assert back[2]["toolUse"] == {"toolUseId": "t1", "name": "look", "input": {"at": "noon"}}
    assert sent["messages"][2]["content"][0]["toolResult"]["toolUseId"] == "t1"

"""Recorded answers of ConverseStream, read under every chunking, cut and truncation."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    ExtensionBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_bedrock import BedrockProvider
from swink_provider_bedrock.eventstream import EventStreamDecoder, message
from swink_test_helpers.corpus import Case, ids, stream_cases
from swink_testing.chunking import chunkings, cut_at, frame_ends, random_cuts, truncations
from swink_testing.driver import drive_bytes, fold

PROVIDER = BedrockProvider("bedrock")
CUTS = 40
"""Places at which a body is cut in two. Short bodies are cut everywhere in test_eventstream.py."""

STREAMS = stream_cases("bedrock")
FAILED = {
    "bedrock/corrupt-prelude-crc": Kind.PROTOCOL,
    "bedrock/error-frame-unmodeled": Kind.NETWORK,
    "bedrock/exception-frame-internal-server-exception": Kind.NETWORK,
    "bedrock/exception-frame-model-stream-error-exception": Kind.NETWORK,
    "bedrock/exception-frame-validation-exception": Kind.CONTEXT_WINDOW_EXCEEDED,
    "bedrock/truncated-mid-frame": Kind.NETWORK,
}
COMPLETE = [case for case in STREAMS if case.name not in FAILED]

BY_THE_SERVER = "bedrock/pydantic-ai-bedrock-model-code-execution-tool-stream"
"""Its first `toolUse` is of type `server_tool_use`: Bedrock has made that call itself, and its
result follows. Both independent readers count it among the calls for the caller, which cannot
answer it; swink returns it as an extension.
"""


async def _events(chunks: list[bytes]) -> list[AssistantMessageEvent]:
    return await drive_bytes(PROVIDER, "any", chunks)


async def _message(case: Case) -> AssistantMessage:
    return fold(await _events([case.body]), "bedrock")


def _expected(case: Case) -> dict[str, Any]:
    """Return the independent reading; for two broken bodies, only AWS's SDK has one."""
    expected = case.expect["reference_parse"]
    if expected is None:
        sdk = case.expect["sdk"]
        deltas = [piece["contentBlockDelta"]["delta"] for piece in sdk["final"][1:]]
        citations = [delta["citation"] for delta in deltas if "citation" in delta]
        return {**sdk["summary"], "extra": {"citations": citations}}
    if case.name == BY_THE_SERVER:
        return {**expected, "tool_calls": expected["tool_calls"][1:]}
    return dict(expected)


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_text_and_reasoning_are_those_recorded(case: Case) -> None:
    found, expected = await _message(case), _expected(case)

    assert found.text == (expected["text"] or "")
    assert found.thinking == (expected["reasoning"] or "")


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_signatures_and_redacted_reasoning_are_kept_byte_for_byte(case: Case) -> None:
    thinking = [b for b in (await _message(case)).content if isinstance(b, ThinkingBlock)]
    signed = [b.signature for b in thinking if b.signature and not b.redacted]
    assert signed == [s for s in [_expected(case).get("signature")] if s]
    assert [b.signature for b in thinking if b.redacted] == (_expected(case).get("redacted") or [])


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_tool_calls_are_those_recorded(case: Case) -> None:
    found, expected = await _message(case), _expected(case)

    assert [(call.id, call.name, call.raw_arguments) for call in found.tool_calls] == [
        (call["id"], call["name"], call["arguments"]) for call in expected["tool_calls"]
    ]


SERVED = [case for case in STREAMS if case.name == BY_THE_SERVER]


@pytest.mark.parametrize("case", SERVED, ids=ids)
async def test_a_call_that_bedrock_makes_itself_is_not_the_callers(case: Case) -> None:
    use, result = [b for b in (await _message(case)).content if isinstance(b, ExtensionBlock)]
    assert use.data["toolUse"]["input"] == {"snippet": "1234 * 5678"}
    assert result.data["toolResult"]["content"][0]["json"]["stdOut"] == "7006652"
    assert use.data["toolUse"]["toolUseId"] == result.data["toolResult"]["toolUseId"]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_citations_are_those_recorded(case: Case) -> None:
    text = [block for block in (await _message(case)).content if isinstance(block, TextBlock)]
    cited = [c for block in text for c in (block.metadata or {}).get("citations", [])]
    assert cited == (_expected(case).get("extra") or {}).get("citations", [])


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_usage_is_that_recorded(case: Case) -> None:
    usage, stated = (await _message(case)).usage, _expected(case)["usage"]

    if stated is None:
        assert usage is None
        return
    assert usage is not None
    assert usage.reported
    assert (usage.input, usage.output) == (stated["inputTokens"], stated["outputTokens"])
    assert usage.total == stated["totalTokens"]
    assert (usage.cache_read, usage.cache_write) == (None, None)


ENDS = {
    "end_turn": StopReason.STOP,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.LENGTH,
    "guardrail_intervened": StopReason.CONTENT_FILTER,
}


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_the_end_is_the_one_recorded(case: Case) -> None:
    last, expected = (await _events([case.body]))[-1], _expected(case)

    if case.name in FAILED:
        assert isinstance(last, Error)
        assert last.error_kind is FAILED[case.name]
    else:
        assert isinstance(last, Done)
        assert last.stop_reason is ENDS[expected["stop_reason"]]
    if error := expected.get("error"):
        assert isinstance(last, Error)
        said = error["error_message"] or error["body"]["message"]
        assert last.error_message.startswith(said)


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_where_a_read_ends_does_not_matter(case: Case) -> None:
    whole = await _events([case.body])

    for seed in range(CUTS):
        cut = random_cuts(case.body, seed, 1)
        assert await _events(cut) == whole, f"cut at {len(cut[0])}"
    if case.name == "bedrock/corrupt-prelude-crc":
        return  # it has no frames to cut between
    for name, chunks in chunkings(case.body, PROVIDER.decoder, seeds=range(4)):
        assert await _events(chunks) == whole, name


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_only_message_stop_makes_it_an_answer(case: Case) -> None:
    ends = frame_ends(case.body, PROVIDER.decoder)
    names = [
        message(frame).headers[":event-type"] for frame in EventStreamDecoder().feed(case.body)
    ]
    completing = names.index("messageStop") + 1

    for cut in truncations(case.body, ends):
        last = (await _events([cut.body]))[-1]
        if cut.frames >= completing:
            assert isinstance(last, Done)
        else:
            assert isinstance(last, Error), cut.frames
            assert last.error_kind is Kind.NETWORK


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_the_completing_message_cut_anywhere_is_a_cut_and_not_malformed(case: Case) -> None:
    ends = [0, *frame_ends(case.body, PROVIDER.decoder)]
    frames = EventStreamDecoder().feed(case.body)
    at = [message(frame).headers[":event-type"] for frame in frames].index("messageStop")

    for offset in range(ends[at], ends[at + 1]):
        last = (await _events(cut_at(case.body, [offset])[:1]))[-1]
        assert isinstance(last, Error), offset
        assert last.error_kind is Kind.NETWORK, offset

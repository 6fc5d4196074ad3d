"""Recorded answers of the Messages API, read under every chunking, cut and truncation."""

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
    ThinkingBlock,
    ToolCallBlock,
)
from swink_core import StreamErrorKind as Kind
from swink_provider_anthropic import AnthropicProvider
from swink_test_helpers.corpus import Case, ids, stream_cases
from swink_testing.chunking import chunkings, cut_at, frame_ends, random_cuts, truncations
from swink_testing.driver import drive_bytes, fold

PROVIDER = AnthropicProvider("anthropic")
CUTS = 40
"""Places at which a body is cut in two. Short bodies are cut everywhere in test_parser.py."""

STREAMS = stream_cases("anthropic")
FAILED = {
    "anthropic/midstream-overloaded-after-text": Kind.OVERLOADED,
    "anthropic/truncated-before-message-stop": Kind.NETWORK,
}
COMPLETE = [case for case in STREAMS if case.name not in FAILED]

WHOLE_AT_START = "anthropic/vercel-anthropic-programmatic-tool-calling-1-part2"
"""Its only block, and its stop reason, are in `message_start`; the independent reader looks for
blocks in separate frames and finds none. The SDK, which uses the message unchanged, is right:
nothing else in the stream could be what `stop_reason: tool_use` refers to.
"""


async def _events(chunks: list[bytes]) -> list[AssistantMessageEvent]:
    return await drive_bytes(PROVIDER, "any", chunks)


async def _message(case: Case) -> AssistantMessage:
    return fold(await _events([case.body]), "anthropic")


def _expected(case: Case) -> dict[str, Any]:
    expected = dict(case.reference)
    if case.name == WHOLE_AT_START:
        final = case.expect["sdk"]["final"]
        [call] = final["content"]
        arguments = '{"player":"player2"}'
        expected["tool_calls"] = [{"id": call["id"], "name": call["name"], "arguments": arguments}]
        expected["block_types"] = ["tool_use", "container"]
        expected["stop_reason"] = final["stop_reason"]
    return expected


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_text_and_reasoning_are_those_recorded(case: Case) -> None:
    message, expected = await _message(case), _expected(case)

    assert message.text == (expected["text"] or "")
    assert message.thinking == (expected["reasoning"] or "")


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_signatures_are_kept_byte_for_byte(case: Case) -> None:
    message, expected = await _message(case), _expected(case)

    thinking = [block for block in message.content if isinstance(block, ThinkingBlock)]
    assert [b.signature for b in thinking if not b.redacted] == expected["signatures"]
    assert [b.signature for b in thinking if b.redacted] == expected["redacted"]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_tool_calls_are_those_recorded(case: Case) -> None:
    message, expected = await _message(case), _expected(case)

    assert [(call.id, call.name, call.raw_arguments) for call in message.tool_calls] == [
        (call["id"], call["name"], call["arguments"]) for call in expected["tool_calls"]
    ]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_every_block_is_in_its_place(case: Case) -> None:
    message, expected = await _message(case), _expected(case)

    assert [_block_type(block) for block in message.content] == expected["block_types"]


def _block_type(block: Any) -> str:
    match block:
        case ExtensionBlock():
            return block.kind
        case ThinkingBlock(redacted=True):
            return "redacted_thinking"
        case ToolCallBlock():
            return "tool_use"
    return str(block.type)


def _total(rows: list[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_usage_is_inclusive_and_that_of_the_last_frame(case: Case) -> None:
    usage, stated = (await _message(case)).usage, case.reference["usage"]

    assert usage is not None
    assert usage.reported
    iterations = stated.get("iterations") or []
    billed_rows = [stated, *(row for row in iterations if row["type"] == "compaction")]
    cached = stated.get("cache_read_input_tokens"), stated.get("cache_creation_input_tokens")
    assert (usage.cache_read, usage.cache_write) == cached
    assert usage.input == _total(billed_rows, "input_tokens") + sum(part or 0 for part in cached)
    assert usage.output == _total(billed_rows, "output_tokens")
    details = stated.get("output_tokens_details") or {}
    assert usage.reasoning == details.get("thinking_tokens")
    counted = {"input_tokens", "output_tokens"}
    counted |= {"cache_read_input_tokens", "cache_creation_input_tokens"}
    extra = {name: stated[name] for name in stated if name not in counted}
    kept, tools = stated.get("cache_creation") or {}, stated.get("server_tool_use") or {}
    billed = {
        "cache_write_long": kept.get("ephemeral_1h_input_tokens"),
        "searches": tools.get("web_search_requests"),
    }
    assert usage.extra == extra | {n: count for n, count in billed.items() if count is not None}


ENDS = {
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.LENGTH,
    "pause_turn": StopReason.PAUSE,
    "refusal": StopReason.CONTENT_FILTER,
}


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_the_end_is_the_one_recorded(case: Case) -> None:
    last, expected = (await _events([case.body]))[-1], _expected(case)

    assert isinstance(last, Done | Error)
    assert (last.response_id, last.model) == (expected["id"], expected["model"])
    if case.name in FAILED:
        assert isinstance(last, Error)
        assert last.error_kind is FAILED[case.name]
    else:
        assert last.stop_reason is ENDS[expected["stop_reason"]]
    if expected["error"]:
        assert isinstance(last, Error)
        assert last.error_message == expected["error"]["message"]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_where_a_read_ends_does_not_matter(case: Case) -> None:
    whole = await _events([case.body])

    for name, chunks in chunkings(case.body, PROVIDER.decoder, seeds=range(4)):
        assert await _events(chunks) == whole, name
    for seed in range(CUTS):
        cut = random_cuts(case.body, seed, 1)
        assert await _events(cut) == whole, f"cut at {len(cut[0])}"


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_only_message_stop_makes_it_an_answer(case: Case) -> None:
    body = case.body if case.body.endswith(b"\n\n") else case.body.rstrip() + b"\n\n"
    ends = frame_ends(body, PROVIDER.decoder)

    for cut in truncations(body, ends):
        last = (await _events([cut.body]))[-1]
        if cut.frames == len(ends):
            assert isinstance(last, Done)
        else:
            assert isinstance(last, Error), cut.frames
            assert last.error_kind is Kind.NETWORK


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_a_last_frame_cut_anywhere_is_a_cut_and_not_malformed(case: Case) -> None:
    body = case.body.rstrip()
    payload = body.rindex(b"data:")

    for offset in range(payload, len(body)):
        last = (await _events(cut_at(body, [offset])[:1]))[-1]
        assert isinstance(last, Error), offset
        assert last.error_kind is Kind.NETWORK, offset

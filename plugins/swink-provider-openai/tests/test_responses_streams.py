"""Recorded answers of the Responses API, read under every chunking, cut and truncation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from responses_cases import (
    MODEL,
    STREAMS,
    TRIMMED,
    completes_after,
    expected_calls,
    expected_stop,
    expected_text,
    provider_of,
)

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    ExtensionBlock,
    TextBlock,
    ThinkingBlock,
    Usage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import SSEDecoder
from swink_test_helpers.corpus import Case, ids
from swink_testing.chunking import chunkings, every_cut, frame_ends, truncations
from swink_testing.driver import (
    comparable_events,
    drive_bytes,
    fold,
)

CUT_EVERYWHERE = 8192
"""Bytes up to which a body is cut in two at every place."""

FAILED = {
    # "The input or output tokens must be reduced": no waiting helps
    "openai_responses/prism-stream-rate-limited-1": Kind.CONTEXT_WINDOW_EXCEEDED,
    "openai_responses/prism-stream-unknown-error-responses-1": Kind.UNKNOWN,
    "openai_responses/truncated-before-completed": Kind.NETWORK,
}


COMPLETE = [case for case in STREAMS if case.name not in FAILED]

BLOCKS = {"message", "reasoning", "function_call", "custom_tool_call"}
"""Item types with a block type; all others become extensions."""


async def _events(case: Case, chunks: list[bytes]) -> list[AssistantMessageEvent]:
    return await drive_bytes(provider_of(case), MODEL, chunks)


async def _message(case: Case) -> AssistantMessage:
    return fold(await _events(case, [case.body]))


def _items(case: Case) -> list[dict[str, Any]]:
    """Return the items that a stream says are done, in their order in the output."""
    found = []
    decoder = SSEDecoder()
    for frame in [*decoder.feed(case.body), *decoder.finish()]:
        if b'"response.output_item.done"' in frame:
            event = msgspec.json.decode(frame)
            if event["type"] == "response.output_item.done":
                found.append((event.get("output_index", len(found)), event["item"]))
    return [item for _, item in sorted(found, key=lambda pair: pair[0])]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_text_and_reasoning_are_those_recorded(case: Case) -> None:
    message = await _message(case)

    assert message.text == expected_text(case)
    assert message.thinking == (case.reference["reasoning"] or "")


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_tool_calls_are_those_recorded(case: Case) -> None:
    message = await _message(case)

    for call, (id, name, arguments) in zip(message.tool_calls, expected_calls(case), strict=True):
        assert (call.id, call.name) == (id, name)
        assert (call.raw_arguments if isinstance(arguments, str) else call.arguments) == arguments


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_items_that_go_back_are_kept_whole(case: Case) -> None:
    content = (await _message(case)).content

    kept = [
        block.data if isinstance(block, ExtensionBlock) else (block.metadata or {})["item"]
        for block in content
        if isinstance(block, ExtensionBlock)
        or (isinstance(block, ThinkingBlock) and "item" in (block.metadata or {}))
    ]
    expected = [
        item for item in _items(case) if item["type"] == "reasoning" or item["type"] not in BLOCKS
    ]
    assert kept == expected


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_annotations_are_kept_with_their_text(case: Case) -> None:
    texts = [b for b in (await _message(case)).content if isinstance(b, TextBlock)]

    kept = [block.metadata.get("annotations", []) for block in texts if block.metadata]
    expected = [
        part.get("annotations") or []
        for item in _items(case)
        if item["type"] == "message"
        for part in item["content"]
        if part.get("text") or part.get("refusal")
    ]
    assert kept == expected


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_the_response_is_known_by_its_id_and_model(case: Case) -> None:
    message = await _message(case)

    assert message.response_id == case.reference["id"]
    assert message.model == case.reference["model"]


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_the_stop_reason_is_the_one_recorded(case: Case) -> None:
    terminal = (await _events(case, [case.body]))[-1]

    assert isinstance(terminal, Done)
    assert terminal.stop_reason is expected_stop(case)


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_usage_is_what_was_recorded(case: Case) -> None:
    usage = (await _message(case)).usage

    reported = case.reference["usage"]
    assert isinstance(usage, Usage)
    assert (usage.input, usage.output) == (reported["input_tokens"], reported["output_tokens"])
    assert usage.total == reported.get("total_tokens", usage.input + usage.output)
    details = reported.get("output_tokens_details") or {}
    assert usage.reasoning == details.get("reasoning_tokens")
    details = reported.get("input_tokens_details") or {}
    assert usage.cache_read == details.get("cached_tokens")
    assert usage.cache_write == details.get("cache_write_tokens")


@pytest.mark.parametrize("case", [c for c in STREAMS if c.name in FAILED], ids=ids)
async def test_an_error_or_a_cut_ends_the_stream_with_its_kind(case: Case) -> None:
    terminal = (await _events(case, [case.body]))[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is FAILED[case.name]


@pytest.mark.skipif(not STREAMS, reason="the corpus is not here (SWINK_CORPUS)")
def test_where_two_readings_differ_it_is_said_which_is_right() -> None:
    found = {c.name for c in STREAMS if (c.expect.get("crosscheck") or {}).get("agree") is False}

    assert found == {TRIMMED}


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_where_a_read_ends_never_matters(case: Case) -> None:
    expected = comparable_events(await _events(case, [case.body]))

    for name, chunks in chunkings(case.body, SSEDecoder, range(3)):
        assert comparable_events(await _events(case, chunks)) == expected, name


@pytest.mark.parametrize("case", [c for c in STREAMS if len(c.body) <= CUT_EVERYWHERE], ids=ids)
def test_a_short_body_may_be_cut_anywhere(case: Case) -> None:
    def frames(chunks: list[bytes]) -> list[bytes]:
        decoder = SSEDecoder()
        return [frame for chunk in chunks for frame in decoder.feed(chunk)] + decoder.finish()

    expected = frames([case.body])  # the parser sees nothing else
    for chunks in every_cut(case.body):
        assert frames(chunks) == expected, len(chunks[0])


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_a_cut_is_an_error_until_the_answer_is_complete(case: Case) -> None:
    end = completes_after(case.body)
    whole = await _message(case)

    for frames, body in truncations(case.body, frame_ends(case.body, SSEDecoder)):
        events = await _events(case, [body])
        terminal = events[-1]
        if end and frames >= end:
            assert fold(events) == whole, frames
        else:
            assert isinstance(terminal, Error), frames
            assert terminal.error_kind is Kind.NETWORK, frames

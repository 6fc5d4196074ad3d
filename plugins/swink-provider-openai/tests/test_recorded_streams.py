"""Recorded answers in all dialects, read under every chunking, cut and truncation."""

from __future__ import annotations

import pytest
from chat_cases import STREAMS, expected_text, expected_thinking, provider_of

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    ThinkingBlock,
    Usage,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import SSEDecoder
from swink_test_helpers.corpus import Case, ids
from swink_test_helpers.recorded_chat import completes_after, expected_calls, expected_stop
from swink_testing.chunking import chunkings, every_cut, frame_ends, truncations
from swink_testing.driver import comparable, comparable_events, drive_bytes, fold

CUT_EVERYWHERE = 4096
"""Bytes up to which a body is cut in two at every place."""

FAILED = {
    "openai_chat/midstream-server-error": Kind.NETWORK,
    "openai_chat/truncated-inside-tool-args": Kind.NETWORK,
    "groq/pydantic-ai-tool-use-failed-error-streaming": Kind.EMPTY_RESPONSE,
    "openrouter/pydantic-ai-openrouter-stream-error": Kind.INVALID_REQUEST,
}
"""The streams that end in an error. OpenRouter's says `length` first and then reports an error:
the error is the provider's last word."""

BESIDE = {
    "mistral/rig-streaming-agent-sends-audio": (375, 0),
    "xai/fantasy-complex-object-streaming": (0, 582),
    "xai/fantasy-multi-tool-streaming-2": (0, 266),
    "xai/fantasy-simple-object-streaming": (0, 257),
    "xai/fantasy-tool-streaming-2": (0, 77),
    "xai/vercel-xai-text": (0, 290),
    "xai/vercel-xai-text-2": (0, 340),
}
"""Services whose totals count audio beside the prompt or reasoning beside the completion."""

FINISHES_OFTEN = (
    "azure/semantic-kernel-chat-completion-streaming-multiple-function-calls-test-async-filter-resp"
)
"""A fixture written by hand, whose every chunk has a finish reason: cut, it has less content."""

LAST_OBJECT = (
    "the SDK's helper leaves out the last frame, whose `object` is chat.completion.done, and so "
    "has no finish reason; the independent reading has the one that the frame holds, and is right"
)
DISAGREED = {
    "openai_compat_other/perplexity-ruby-llm-chat-streaming-responses-perplexity-sonar-"
    "supports-streaming-re": LAST_OBJECT,
    "openai_compat_other/prism-stream-basic-text-1": LAST_OBJECT,
    "openai_compat_other/vercel-perplexity-citations": LAST_OBJECT,
    "openai_compat_other/vercel-perplexity-text": LAST_OBJECT,
}
"""The cases whose two expected readings differ, and which of them is right."""

COMPLETE = [case for case in STREAMS if case.name not in FAILED]


async def _events(case: Case, chunks: list[bytes]) -> list[AssistantMessageEvent]:
    return await drive_bytes(provider_of(case), "any", chunks)


async def _message(case: Case) -> AssistantMessage:
    return fold(await _events(case, [case.body]))


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_text_and_reasoning_are_those_recorded(case: Case) -> None:
    message = await _message(case)

    assert message.text == expected_text(case)
    assert message.thinking == expected_thinking(case)


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_tool_calls_are_those_recorded(case: Case) -> None:
    message = await _message(case)

    calls = [(call.id, call.name, call.raw_arguments) for call in message.tool_calls]
    assert calls == expected_calls(case)


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_the_response_is_known_by_its_id_and_model(case: Case) -> None:
    message = await _message(case)

    assert message.response_id == (case.reference["id"] or None)
    assert message.model == (case.reference["model"] or None)


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_the_stop_reason_is_the_one_recorded(case: Case) -> None:
    terminal = (await _events(case, [case.body]))[-1]

    assert isinstance(terminal, Done)
    assert terminal.stop_reason is expected_stop(case)


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_usage_is_what_was_recorded(case: Case) -> None:
    usage = (await _message(case)).usage

    reported = case.reference["usage"]
    if reported is None:
        assert usage is None
        return
    assert isinstance(usage, Usage)
    beside_prompt, beside_completion = BESIDE.get(case.name, (0, 0))
    assert usage.input == reported["prompt_tokens"] + beside_prompt
    assert usage.output == reported["completion_tokens"] + beside_completion
    assert usage.total == reported["total_tokens"] == usage.input + usage.output
    details = reported.get("completion_tokens_details") or {}
    thought = details.get("reasoning_tokens", reported.get("reasoning_tokens"))
    assert usage.reasoning == thought
    details = reported.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens", reported.get("cache_read_input_tokens"))
    assert usage.cache_read == reported.get("cached_tokens", cached)


@pytest.mark.parametrize("case", [c for c in STREAMS if c.name in FAILED], ids=ids)
async def test_an_error_or_a_cut_ends_the_stream_with_its_kind(case: Case) -> None:
    terminal = (await _events(case, [case.body]))[-1]

    assert isinstance(terminal, Error)
    assert terminal.error_kind is FAILED[case.name]
    reported = case.reference["error"]
    if reported is not None:
        said = reported.get("failed_generation")  # Groq: what the model said
        expected = reported["message"] + (f" The model said: {said}" if said else "")
        assert terminal.error_message == expected


@pytest.mark.skipif(not STREAMS, reason="the corpus is not here (SWINK_CORPUS)")
def test_where_two_readings_differ_it_is_said_which_is_right() -> None:
    found = {c.name for c in STREAMS if (c.expect.get("crosscheck") or {}).get("agree") is False}

    assert found == DISAGREED.keys()


ROUND_TRIPS = [case for case in STREAMS if "reasoning-details-round-trip" in case.name]


@pytest.mark.parametrize("case", ROUND_TRIPS, ids=ids)
async def test_reasoning_details_are_kept_with_their_signature(case: Case) -> None:
    [block] = [b for b in (await _message(case)).content if isinstance(b, ThinkingBlock)]
    assert block.metadata is not None
    pieces = case.reference["reasoning_details"]
    text = "".join(piece.get("text") or "" for piece in pieces)
    [signature] = [piece["signature"] for piece in pieces if piece.get("signature")]
    [detail] = block.metadata["reasoning_details"]
    assert (detail["text"], detail["signature"]) == (text, signature)


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
    complete, failed = completes_after(case.body)
    whole = comparable(await _message(case))

    for frames, body in truncations(case.body, frame_ends(case.body, SSEDecoder)):
        events = await _events(case, [body])
        terminal = events[-1]
        if failed is not None and frames >= failed:
            assert isinstance(terminal, Error), frames
            assert terminal.error_kind is FAILED[case.name], frames
        elif complete is None or frames < complete:
            assert isinstance(terminal, Error), frames
            assert terminal.error_kind is Kind.NETWORK, frames
        else:
            assert isinstance(terminal, Done), frames
            content = comparable(fold(events)).content
            assert content == whole.content or case.name == FINISHES_OFTEN, frames

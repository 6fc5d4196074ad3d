"""Recorded answers of the Gemini API and Vertex AI, under every chunking, cut and truncation."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Done,
    Error,
    ExtensionBlock,
    Notice,
    RetryPolicy,
    StopReason,
    ThinkingBlock,
)
from swink_core import StreamErrorKind as Kind
from swink_core.providers import is_synthetic_id
from swink_provider_gemini import GeminiProvider
from swink_test_helpers.corpus import Case, ids, stream_cases
from swink_testing.calls import client_with
from swink_testing.chunking import chunkings, frame_ends, random_cuts, truncations
from swink_testing.driver import MemoryHTTPClient, MemoryResponse, drive_bytes, fold

PROVIDER = GeminiProvider("gemini")
CUTS = 40
"""Places at which a body is cut in two. Short bodies are cut everywhere in test_parser.py."""

STREAMS = [case for case in stream_cases("gemini") if "json-array-stream" not in case.features]
ARRAYS = [case for case in stream_cases("gemini") if "json-array-stream" in case.features]

FAILED = {
    "gemini/firebase-googleai-streaming-failure-prompt-blocked-safety": Kind.CONTENT_FILTERED,
    "gemini/firebase-vertexai-streaming-failure-error-mid-stream": Kind.NETWORK,
    "gemini/firebase-vertexai-streaming-failure-malformed-content": Kind.NETWORK,
    "gemini/firebase-vertexai-streaming-failure-prompt-blocked-safety": Kind.CONTENT_FILTERED,
    "gemini/malformed-function-call": Kind.EMPTY_RESPONSE,
    "gemini/prism-stream-basic-text-1": Kind.NETWORK,
}
"""The bare error in mid-stream comes after frames that say STOP, as older models did on each: the
vendor's client raises it, the mechanical reading has not seen it. The last is edited by hand: it
has no blank line between its frames, which makes them one that is no JSON."""
COMPLETE = [case for case in STREAMS if case.name not in FAILED]

STREAMED = {
    "gemini/vercel-google-stream-no-args-tool-call",
    "gemini/vercel-google-stream-tool-call-array-arguments-missing-terminal-function-call",
    "gemini/vercel-google-vertex-stream-tool-call-arguments-nested-1",
}
"""Their calls come in pieces, of which the mechanical reading counts each as a call."""

ENDS = {
    "STOP": StopReason.STOP,
    "MAX_TOKENS": StopReason.LENGTH,
    "SAFETY": StopReason.CONTENT_FILTER,
    "RECITATION": StopReason.CONTENT_FILTER,
    "FAKE_ENUM": StopReason.STOP,
}


async def _events(chunks: list[bytes]) -> list[AssistantMessageEvent]:
    return await drive_bytes(PROVIDER, "any", chunks)


async def _message(case: Case) -> AssistantMessage:
    return fold(await _events([case.body]), "gemini")


def _frames(body: bytes) -> Iterator[dict[str, Any]]:
    for line in body.splitlines():
        if line.startswith(b"data:"):
            yield json.loads(line[5:])


def _parts(case: Case) -> Iterator[dict[str, Any]]:
    if case.name in FAILED:
        return
    for frame in _frames(case.body):
        for candidate in frame.get("candidates", ()):
            yield from candidate.get("content", {}).get("parts", ())


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_text_and_reasoning_are_those_recorded(case: Case) -> None:
    message, expected = await _message(case), case.reference

    assert message.text == (expected["text"] or "")
    assert message.thinking == (expected["reasoning"] or "")


@pytest.mark.parametrize("case", [case for case in STREAMS if case.name not in STREAMED], ids=ids)
async def test_tool_calls_are_those_recorded(case: Case) -> None:
    message, expected = await _message(case), case.reference["tool_calls"]

    assert [
        (None if is_synthetic_id(call.id) else call.id, call.name, call.arguments, call.state)
        for call in message.tool_calls
    ] == [(c["id"], c["name"], c["arguments_parsed"], "complete") for c in expected]


def _leaves(value: Any, path: str = "$") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{at}]")
    else:
        yield path, value


@pytest.mark.parametrize("case", [case for case in STREAMS if case.name in STREAMED], ids=ids)
async def test_calls_in_pieces_have_every_piece_in_its_place(case: Case) -> None:
    expected: list[tuple[str, dict[str, Any]]] = []
    for part in _parts(case):
        call = part.get("functionCall", {})
        if "name" in call:
            expected.append((call["name"], {}))
        for piece in call.get("partialArgs", ()):
            leaves, path = expected[-1][1], piece["jsonPath"]
            [value] = [v for k, v in piece.items() if k.endswith("Value")]
            leaves[path] = leaves[path] + value if path in leaves else value

    message = await _message(case)

    assert [(call.name, dict(_leaves(call.arguments))) for call in message.tool_calls] == expected
    assert {call.state for call in message.tool_calls} == {"complete"}


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_every_signature_is_kept_in_order(case: Case) -> None:
    found = []
    for block in (await _message(case)).content:
        if isinstance(block, ThinkingBlock):
            found.append(block.signature)
        elif isinstance(block, ExtensionBlock):
            found.append(block.data.get("thoughtSignature"))
        else:
            found.append((block.metadata or {}).get("thoughtSignature"))

    sent = [part["thoughtSignature"] for part in _parts(case) if "thoughtSignature" in part]
    assert [signature for signature in found if signature] == sent


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_parts_of_other_kinds_are_kept_whole_and_in_place(case: Case) -> None:
    found = [b.data for b in (await _message(case)).content if isinstance(b, ExtensionBlock)]

    assert found == [part for part in _parts(case) if not part.keys() & {"text", "functionCall"}]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_sources_of_the_text_are_kept(case: Case) -> None:
    message = await _message(case)

    about: dict[str, Any] = {}
    for block in message.content:
        about.update(block.metadata or {})
    assert bool(about.get("groundingMetadata")) == any(
        candidate.get("groundingMetadata")
        for frame in ([] if case.name in FAILED else _frames(case.body))
        for candidate in frame.get("candidates", ())
    )
    assert about.get("citationMetadata") == case.reference["citation_metadata"]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_usage_is_inclusive_and_that_of_the_last_frame(case: Case) -> None:
    usage, stated = (await _message(case)).usage, case.reference["usage"]

    if stated is None:
        assert usage is None
        return
    assert usage is not None
    assert usage.input == stated["promptTokenCount"] + stated.get("toolUsePromptTokenCount", 0)
    thoughts = stated.get("thoughtsTokenCount")
    assert usage.output == stated.get("candidatesTokenCount", 0) + (thoughts or 0)
    assert usage.reasoning == thoughts
    assert usage.cache_read == stated.get("cachedContentTokenCount")
    assert usage.total == stated["totalTokenCount"] == (usage.input or 0) + (usage.output or 0)
    assert usage.extra.items() >= {
        (name, value) for name, value in stated.items() if isinstance(value, str)
    }


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_the_end_is_the_one_recorded(case: Case) -> None:
    last = (await _events([case.body]))[-1]

    assert isinstance(last, Done | Error)
    assert (last.response_id, last.model) == (case.reference["id"], case.reference["model"])
    if case.name in FAILED:
        assert isinstance(last, Error)
        assert last.error_kind is FAILED[case.name]
    elif case.reference["tool_calls"]:
        assert last.stop_reason is StopReason.TOOL_USE
    else:
        assert last.stop_reason is ENDS[case.reference["finish_reason"]]


@pytest.mark.parametrize("case", [c for c in STREAMS if "finish:FAKE_ENUM" in c.features], ids=ids)
async def test_an_unknown_end_is_told(case: Case) -> None:
    notices = [event for event in await _events([case.body]) if isinstance(event, Notice)]
    assert notices == [Notice("stop_reason", "the answer ended with FAKE_ENUM")]


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_where_a_read_ends_does_not_matter(case: Case) -> None:
    whole = await _events([case.body])

    for name, chunks in chunkings(case.body, PROVIDER.decoder, seeds=range(4)):
        assert await _events(chunks) == whole, name
    for seed in range(CUTS):
        cut = random_cuts(case.body, seed, 1)
        assert await _events(cut) == whole, f"cut at {len(cut[0])}"


def _completing(case: Case) -> int:
    """The number of frames with which the answer is complete."""
    return next(
        number
        for number, frame in enumerate(_frames(case.body), 1)
        if any("finishReason" in candidate for candidate in frame.get("candidates", ()))
    )


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_only_a_finish_reason_makes_it_an_answer(case: Case) -> None:
    body = case.body.rstrip() + b"\r\n\r\n"
    completing = _completing(case)

    for cut in truncations(body, frame_ends(body, PROVIDER.decoder)):
        last = (await _events([cut.body]))[-1]
        if cut.frames < completing:
            assert isinstance(last, Error), cut.frames
            assert last.error_kind is Kind.NETWORK
        else:
            assert isinstance(last, Done), cut.frames


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_a_last_frame_cut_anywhere_is_a_cut_and_not_malformed(case: Case) -> None:
    body = case.body.rstrip()
    payload = body.rindex(b"data:") + 1
    completed_before = _completing(case) < len(list(_frames(body)))

    for offset in range(payload, len(body), max(1, (len(body) - payload) // 500)):
        *events, last = await _events([body[:offset]])
        if completed_before:
            assert isinstance(last, Done), offset
        else:
            assert isinstance(last, Error), offset
            assert last.error_kind is Kind.NETWORK, offset
        codes = [event.code for event in events if isinstance(event, Notice)]
        assert "malformed_frame" not in codes


@pytest.mark.parametrize("case", ARRAYS, ids=ids)
async def test_a_json_array_is_read_where_nothing_is_streamed(case: Case) -> None:
    answer = MemoryResponse([case.body], headers={"Content-Type": "application/json"})
    async with (
        client_with(
            http=MemoryHTTPClient(answer), api_key="test", retry=RetryPolicy.none()
        ) as client,
        client.stream("gemini/any", "Hi", transport="buffered") as stream,
    ):
        *events, last = [event async for event in stream]

    assert Notice("stop_reason", "the answer ended with OTHER") in events
    assert isinstance(last, Error)  # it says nothing
    assert last.error_kind is Kind.EMPTY_RESPONSE
    assert last.usage is not None
    assert last.usage.total == 36

"""Recorded answers of Ollama, read under every chunking, cut and truncation."""

from __future__ import annotations

import pytest

from swink_core import (
    AssistantMessage,
    Done,
    Error,
    StopReason,
    StreamErrorKind,
)
from swink_provider_ollama import OllamaProvider
from swink_test_helpers.corpus import Case, ids, stream_cases
from swink_testing.chunking import (
    chunkings,
    cut_at,
    frame_ends,
    truncations,
)
from swink_testing.driver import (
    comparable,
    comparable_events,
    drive_bytes,
    fold,
)

PROVIDER = OllamaProvider("ollama")
CUTS = 400
"""Places at which a body is cut in two; a shorter one is cut everywhere."""

STREAMS = stream_cases("ollama")
COMPLETE = [case for case in STREAMS if not case.reference["error"]]


async def _read(chunks: list[bytes]) -> AssistantMessage:
    return comparable(fold(await drive_bytes(PROVIDER, "any", chunks)))


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_the_message_is_the_one_that_was_recorded(case: Case) -> None:
    message = await _read([case.body])

    expected = case.reference
    assert message.text == expected["text"]
    assert message.thinking == (expected["reasoning"] or "")
    assert [(call.name, call.arguments) for call in message.tool_calls] == [
        (call["name"], call["arguments_parsed"]) for call in expected["tool_calls"]
    ]
    assert message.model == expected["model"]
    assert message.error_message == expected["error"]


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_the_end_and_the_figures_are_the_ones_that_were_recorded(case: Case) -> None:
    message = await _read([case.body])

    final = case.reference["final"]
    stated = StopReason(case.reference["done_reason"])
    assert message.stop_reason is (StopReason.TOOL_USE if message.tool_calls else stated)
    assert message.usage is not None
    assert message.usage.input == final.get("prompt_eval_count")
    assert message.usage.output == final["eval_count"]
    assert message.usage.extra == {k: v for k, v in final.items() if k.endswith("_duration")}


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_where_a_read_ends_does_not_matter(case: Case) -> None:
    whole = comparable_events(await drive_bytes(PROVIDER, "any", [case.body]))

    for name, chunks in chunkings(case.body, PROVIDER.decoder):
        assert comparable_events(await drive_bytes(PROVIDER, "any", chunks)) == whole, name
    for offset in range(1, len(case.body), 1 + len(case.body) // CUTS):
        cut = cut_at(case.body, [offset])
        assert comparable_events(await drive_bytes(PROVIDER, "any", cut)) == whole, offset


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_only_the_line_with_done_makes_it_an_answer(case: Case) -> None:
    body = case.body if case.body.endswith(b"\n") else case.body + b"\n"
    ends = frame_ends(body, PROVIDER.decoder)

    for cut in truncations(body, ends):
        last = (await drive_bytes(PROVIDER, "any", [cut.body]))[-1]
        if cut.frames == len(ends):
            assert isinstance(last, Done)
        else:
            assert isinstance(last, Error), cut.frames
            assert last.error_kind is StreamErrorKind.NETWORK


@pytest.mark.parametrize("case", COMPLETE, ids=ids)
async def test_a_last_line_cut_anywhere_is_a_cut_and_not_malformed(case: Case) -> None:
    body = case.body.rstrip()
    start = body.rindex(b"\n") + 1

    for offset in range(start + 1, len(body)):
        last = (await drive_bytes(PROVIDER, "any", [body[:offset]]))[-1]
        assert isinstance(last, Error), offset
        assert last.error_kind is StreamErrorKind.NETWORK, offset

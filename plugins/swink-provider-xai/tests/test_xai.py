"""What xAI is sent, and what its recorded answers become."""

from __future__ import annotations

from typing import Any

import pytest
from chat import completes_after, expected_calls, expected_stop, expected_text, expected_thinking
from corpus import Case, error_cases, ids, stream_cases

import swink_core as swink
from swink_core import StreamErrorKind as Kind
from swink_core.providers import SSEDecoder
from swink_provider_xai import XAIProvider
from swink_testing.chunking import chunkings, frame_ends, truncations
from swink_testing.driver import (
    MemoryHTTPClient,
    MemoryResponse,
    comparable,
    comparable_events,
    drive_bytes,
    fold,
)

PROVIDER = XAIProvider("xai")
MODEL = swink.Model("xai", "grok-4.7")
STREAMS = stream_cases("xai")
DONE = b'data: {"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"stop"}]}\n\n'


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_recorded_answers(case: Case) -> None:
    message = fold(await drive_bytes(PROVIDER, MODEL, [case.body]))
    assert message.text == expected_text(case)
    assert message.thinking == expected_thinking(case)
    calls = [(call.id, call.name, call.raw_arguments) for call in message.tool_calls]
    assert calls == expected_calls(case)
    assert message.stop_reason == expected_stop(case)


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_where_a_read_ends_never_matters(case: Case) -> None:
    expected = comparable_events(await drive_bytes(PROVIDER, MODEL, [case.body]))
    for name, chunks in chunkings(case.body, SSEDecoder, range(4)):
        assert comparable_events(await drive_bytes(PROVIDER, MODEL, chunks)) == expected, name


@pytest.mark.parametrize("case", STREAMS, ids=ids)
async def test_a_cut_is_a_network_error_until_the_answer_is_complete(case: Case) -> None:
    complete, _ = completes_after(case.body)
    whole = comparable(fold(await drive_bytes(PROVIDER, MODEL, [case.body])))
    for frames, body in truncations(case.body, frame_ends(case.body, SSEDecoder)):
        events = await drive_bytes(PROVIDER, MODEL, [body])
        if complete is None or frames < complete:
            assert isinstance(events[-1], swink.Error), frames
            assert events[-1].error_kind is Kind.NETWORK, frames
        else:
            assert comparable(fold(events)).content == whole.content, frames


async def call(response: MemoryResponse, **options: Any) -> tuple[MemoryHTTPClient, Any]:
    http = MemoryHTTPClient(response)
    async with swink.Client(http=http, api_key="test") as client:
        stream = client.stream(str(MODEL), "Hi", retry=swink.RetryPolicy.none(), **options)
        events = [event async for event in stream]
    return http, events[-1]


async def test_live_search_and_limits_are_sent() -> None:
    search = {"mode": "auto"}
    http, _ = await call(MemoryResponse([DONE]), max_tokens=9, extra={"search_parameters": search})
    body = http.bodies[0]
    assert body["search_parameters"] == search
    assert body["max_completion_tokens"] == 9
    assert body["stream_options"] == {"include_usage": True}


async def test_the_cost_that_xai_reports_is_used() -> None:
    usage = (
        b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,'
    )
    ticks = b'"cost_in_usd_ticks":12345000000}}\n\n'
    _, terminal = await call(MemoryResponse([DONE, usage + ticks]))
    assert terminal.cost.total == pytest.approx(1.2345)


ERRORS = [
    (400, '{"code":"Client specified an invalid argument","error":"Incorrect API key provided: x"}',
     Kind.AUTH),
    (403, '{"code":"The caller does not have permission","error":"Your team has used all available '
     'credits or reached its monthly spending limit."}', Kind.QUOTA_EXHAUSTED),
    (404, '{"code":"Some requested entity was not found","error":"The model x does not exist or '
     'your team x does not have access to it."}', Kind.MODEL_NOT_FOUND),
    (400, '{"code":"invalid-argument","error":"This model\'s maximum prompt length is 8 but the '
     'request contains 9 tokens."}', Kind.CONTEXT_WINDOW_EXCEEDED),
    (429, '{"code":"Some resource has been exhausted","error":"Too many requests"}',
     Kind.THROTTLED),
    (503, '{"code":"unavailable","error":"Service temporarily unavailable."}', Kind.OVERLOADED),
]  # fmt: skip


@pytest.mark.parametrize(("status", "body", "kind"), ERRORS)
async def test_errors_whose_text_is_all_there_is(status: int, body: str, kind: Kind) -> None:
    _, terminal = await call(MemoryResponse([body.encode()], status))
    assert terminal.error_kind is kind
    assert terminal.error_message


@pytest.mark.parametrize("case", error_cases("xai"), ids=ids)
async def test_recorded_errors(case: Case) -> None:
    _, terminal = await call(MemoryResponse([case.body], case.status, case.headers))
    assert terminal.error_kind is Kind.THROTTLED

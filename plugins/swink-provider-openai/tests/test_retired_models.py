"""Calls to models that are gone, or will be before long, through a client and by its clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from swink_core import Client, Done, Error, Notice, RetryPolicy, StreamErrorKind
from swink_testing.clock import DatedClock
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

SSE = {"Content-Type": "text/event-stream"}
ANSWER = (
    b'data: {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi"}\n\n'
    b'data: {"type": "response.completed", "response": {"status": "completed"}}\n\n'
)
MODEL = "openai/gpt-5-mini"
END = datetime(2026, 12, 11, tzinfo=UTC)  # developers.openai.com/api/docs/deprecations
SOON = f"{MODEL} will be gone on 2026-12-11; ask gpt-6.1-terra instead"


async def asked(days: int, **options: Any) -> tuple[MemoryHTTPClient, list[Any]]:
    """Return what a call so many days after the end sends, and its events."""
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=SSE))
    clock = DatedClock(END + timedelta(days))
    async with Client(http=http, retry=RetryPolicy.none(), clock=clock) as client:
        stream = client.stream(MODEL, "Hi", api_key="test", **options)
        return http, [event async for event in stream]


@pytest.mark.parametrize("days", [0, 1, 1000])
async def test_a_model_that_is_gone_is_not_asked_and_its_successor_named(days: int) -> None:
    http, events = await asked(days)

    assert http.requests == []
    error = events[-1]
    assert isinstance(error, Error)
    assert error.error_kind is StreamErrorKind.MODEL_NOT_FOUND
    assert error.error_message == f"{MODEL} is gone since 2026-12-11; ask gpt-6.1-terra instead"
    assert "rules=False" in (error.resolution or "")


@pytest.mark.parametrize(("days", "told"), [(-1, [SOON]), (-90, [SOON]), (-91, [])])
async def test_that_a_model_will_be_gone_is_told_for_ninety_days(
    days: int, told: list[str]
) -> None:
    http, events = await asked(days)

    assert len(http.requests) == 1
    notices = [event for event in events if isinstance(event, Notice)]
    assert [notice.detail for notice in notices if notice.code == "model_retires"] == told
    assert isinstance(events[-1], Done)


@pytest.mark.parametrize("days", [-1, 0, 1000])
async def test_without_rules_it_is_asked_all_the_same(days: int) -> None:
    http, events = await asked(days, rules=False)

    assert len(http.requests) == 1
    assert not [event for event in events if isinstance(event, Notice)]
    assert isinstance(events[-1], Done)

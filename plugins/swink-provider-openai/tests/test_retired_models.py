"""Calls to retired models, and to models that retire soon, by the client's clock."""

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
SOON = f"{MODEL} will be retired on 2026-12-11; use gpt-6.1-terra instead"
POSTPONED = f"{MODEL} was to be retired on 2026-12-11; use gpt-6.1-terra instead"
GONE = "openai/gpt-4"  # since 23 October 2026, as of 22 November
PAST = f"{GONE} was retired on 2026-10-23; use gpt-6.1-sol instead"


async def asked(
    days: int, model: str = MODEL, **options: Any
) -> tuple[MemoryHTTPClient, list[Any]]:
    """Return the request and events of a call this many days after the retirement."""
    http = MemoryHTTPClient(MemoryResponse([ANSWER], headers=SSE))
    clock = DatedClock(END + timedelta(days))
    async with Client(http=http, retry=RetryPolicy.none(), clock=clock) as client:
        stream = client.stream(model, "Hi", api_key="test", **options)
        return http, [event async for event in stream]


def _ages(events: list[Any]) -> list[str]:
    notices = [event for event in events if isinstance(event, Notice)]
    return [each.detail for each in notices if each.code in ("model_retires", "model_retired")]


async def test_a_retired_model_is_refused_at_its_own_address_and_its_successor_named() -> None:
    http, events = await asked(0, GONE)

    assert http.requests == []
    error = events[-1]
    assert isinstance(error, Error)
    assert error.error_kind is StreamErrorKind.MODEL_NOT_FOUND
    assert error.error_message == f"{GONE} was retired on 2026-10-23; use gpt-6.1-sol instead"
    assert "retired=True" in (error.resolution or "")


ELSEWHERE: list[dict[str, Any]] = [
    {"base_url": "http://localhost:8000/v1"},
    {"base_url": "https://api.openai.com.example/v1"},
    {"retired": True},
    {"retired": True, "base_url": "https://api.openai.com/v1/"},
]


@pytest.mark.parametrize("options", ELSEWHERE, ids=str)
async def test_elsewhere_a_retired_model_is_asked_with_a_warning(options: dict[str, Any]) -> None:
    http, events = await asked(0, GONE, settings={"api": "responses"}, **options)

    assert len(http.requests) == 1
    assert _ages(events) == [PAST]
    assert isinstance(events[-1], Done)


async def test_an_address_from_the_environment_counts_as_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    assert _ages((await asked(0, GONE, settings={"api": "responses"}))[1]) == [PAST]

    monkeypatch.setenv("OPENAI_BASE_URL", "https://api.openai.com/v1")
    assert isinstance((await asked(0, GONE))[1][-1], Error)


@pytest.mark.parametrize("days", [0, 1, 1000])
async def test_a_date_that_was_only_announced_leaves_it_to_the_server(days: int) -> None:
    http, events = await asked(days)

    assert len(http.requests) == 1
    assert _ages(events) == [POSTPONED]
    assert isinstance(events[-1], Done)


@pytest.mark.parametrize(("days", "told"), [(-1, [SOON]), (-90, [SOON]), (-91, [])])
async def test_that_a_model_will_be_gone_is_told_for_ninety_days(
    days: int, told: list[str]
) -> None:
    http, events = await asked(days)

    assert len(http.requests) == 1
    assert _ages(events) == told
    assert isinstance(events[-1], Done)


@pytest.mark.parametrize("days", [-1, 0, 1000])
async def test_without_rules_it_is_asked_all_the_same(days: int) -> None:
    http, events = await asked(days, rules=False)

    assert len(http.requests) == 1
    assert not [event for event in events if isinstance(event, Notice)]
    assert isinstance(events[-1], Done)

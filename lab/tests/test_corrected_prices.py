"""Prices that corrections of the catalogue give, by model, tier and length of the prompt."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import pytest

from swink_core import Client, Usage
from swink_core.providers import Catalog, cost_of

LONG = Usage(300_000, 1_000)
SHORT = Usage(100_000, 1_000)
SEARCHED = Usage(0, 0, extra={"searches": 100, "file_searches": 0})


def _on(usage: Usage, tier: str) -> Usage:
    return Usage(usage.input, usage.output, extra={"service_tier": tier})


# (model, usage, US dollars on 26 November 2026, US dollars on 1 March 2027)
CORRECTED: list[tuple[str, Usage, float, float]] = [
    ("openai/gpt-6.2-sol", SHORT, 0.21, 0.21),
    ("openai/gpt-6.2-sol", LONG, 1.215, 1.215),
    ("openai/gpt-6.2-sol", _on(LONG, "fast"), 2.43, 2.43),
    ("openai/gpt-6.2-sol", _on(SHORT, "ultrafast"), 0.63, 1.26),
    ("openai/gpt-6.2-astra", LONG, 4.86, 4.86),
    ("openai/gpt-6.2-astra", _on(SHORT, "priority"), 1.68, 1.68),
    ("openai/gpt-6-astra", _on(SHORT, "ultrafast"), 6.3, 6.3),
    ("openai/gpt-6-astra", _on(LONG, "ultrafast"), 36.45, 36.45),
    ("openai/gpt-6.1-sol", _on(LONG, "ultrafast"), 7.29, 7.29),
    ("openai/o3-pro", SEARCHED, 1.0, 1.0),
    ("openai/gpt-5.3-codex", SEARCHED, 1.0, 1.0),
    ("vertex/claude-opus-5-5", SEARCHED, 1.0, 1.0),
    ("vertex/gemini-4-hydrogen", SEARCHED, 1.4, 1.4),
    ("gemini/gemini-4-hydrogen", _on(SHORT, "priority"), 0.2835, 0.2835),
    ("xai/grok-4.7", SEARCHED, 0.5, 0.5),
]


@cache
def catalog() -> Catalog:
    return Client().catalog


@pytest.mark.parametrize(("name", "usage", "now", "later"), CORRECTED)
def test_a_corrected_row_has_the_vendors_prices(
    name: str, usage: Usage, now: float, later: float
) -> None:
    info = catalog().resolve(name).info
    assert info is not None
    times = (datetime(2026, 11, 26, tzinfo=UTC), datetime(2027, 3, 1, tzinfo=UTC))
    costs = [cost_of(usage, info.prices, at) for at in times]
    assert [cost and cost.total for cost in costs] == pytest.approx([now, later])

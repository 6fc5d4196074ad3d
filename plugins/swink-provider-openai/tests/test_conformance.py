"""What every provider promises, of every preset of this package."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from swink_testing.conformance import (
    PROVIDER_CHECKS,
    ProviderConformance,
    Subject,
    run_checks,
)

ALL = [
    entry.name
    for entry in entry_points(group="swink.providers")
    if entry.value == "swink_provider_openai:OpenAIProvider"
]


class TestOpenAI(ProviderConformance):
    provider = "openai"


class TestDeepSeek(ProviderConformance):
    provider = "deepseek"


class TestGroq(ProviderConformance):
    provider = "groq"


class TestOpenRouter(ProviderConformance):
    provider = "openrouter"


IN_DETAIL = {suite.provider for suite in (TestOpenAI, TestDeepSeek, TestGroq, TestOpenRouter)}
"""Presets that this package ships recordings of."""


@pytest.mark.parametrize("name", sorted(set(ALL) - IN_DETAIL))
def test_a_preset_passes_the_kit(name: str) -> None:
    subject = Subject.find(name)

    results = run_checks(PROVIDER_CHECKS, subject, subject.known_failures)

    assert {r.name: r.detail for r in results if r.is_fault} == {}

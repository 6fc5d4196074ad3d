"""What every provider promises, of the presets that this package ships recordings of."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from swink_testing.conformance import (
    PROVIDER_CHECKS,
    Outcome,
    ProviderConformance,
    Subject,
    run_checks,
)

LISTED = [check for check in PROVIDER_CHECKS if check.name.startswith("listed_")]
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


@pytest.mark.parametrize("name", ALL)
def test_of_every_preset_what_is_listed_holds(name: str) -> None:
    results = run_checks(LISTED, Subject.find(name))
    assert [result for result in results if result.outcome is Outcome.FAILED] == []
    assert len(results) == 2

"""Conformance tests of every preset of this package, and of an additional row."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest

from swink_core import Host
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


@pytest.mark.heavy
class TestDeepSeek(ProviderConformance):
    provider = "deepseek"


@pytest.mark.heavy
class TestGroq(ProviderConformance):
    provider = "groq"


@pytest.mark.heavy
class TestOpenRouter(ProviderConformance):
    provider = "openrouter"


IN_DETAIL = {suite.provider for suite in (TestOpenAI, TestDeepSeek, TestGroq, TestOpenRouter)}
"""Presets that this package ships recordings of."""


@pytest.mark.heavy
@pytest.mark.parametrize("name", sorted(set(ALL) - IN_DETAIL))
def test_a_preset_passes_the_kit(name: str) -> None:
    subject = Subject.find(name)

    results = run_checks(PROVIDER_CHECKS, subject, subject.waivers)

    assert {r.name: r.detail for r in results if r.is_fault} == {}


def test_a_service_with_names_of_its_own_passes_the_kit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `own_names` shows the kit what a dialect's `answer` and `headers` mean."""
    monkeypatch.syspath_prepend(Path(__file__).parent / "fixtures")
    point = EntryPoint("own-names", "own_names:OwnNames", "swink.providers")
    entry = SimpleNamespace(
        name=point.name, group=point.group, value=point.value, load=point.load,
        dist=SimpleNamespace(name="own-names", version="1.0"),
    )  # fmt: skip
    subject = Subject(point.name, Host(entry_points=[entry], environ={}))

    results = run_checks(PROVIDER_CHECKS, subject)

    assert {r.name: r.detail for r in results if r.is_fault} == {}
    listed = {"expected_messages", "listed_requests"}
    assert listed <= {r.name for r in results if r.applied}

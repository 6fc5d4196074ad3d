"""The package's own facts: rows, entry points, models."""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

import swink_provider_openai
from swink_core.plugins.package_data import PackageCatalog, package_catalog
from swink_provider_openai import Dialect, OpenAIProvider

FOLDER = Path(__file__).parents[1]


def _catalog() -> PackageCatalog:
    return package_catalog("swink_provider_openai")


def test_every_row_is_an_entry_point_and_every_entry_point_has_a_row() -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text("utf-8"))["project"]

    assert project["entry-points"]["swink.providers"].keys() == _catalog().providers.keys()


@pytest.mark.parametrize("name", sorted(_catalog().providers))
def test_a_row_says_all_that_a_user_needs(name: str) -> None:
    provider = OpenAIProvider(name)

    assert provider.info.title
    assert provider.info.wire_format in {"openai-chat", "perplexity-agent"}
    assert provider.info.base_url
    assert provider.info.api_key_env
    assert provider.info.base_url_env
    assert provider.info.docs
    assert provider.info.portal or provider.info.auth == "optional"


def test_a_field_that_no_dialect_has_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="max_tokenz"):
        Dialect(max_tokenz="n")  # type: ignore[call-arg]  # a mistake on purpose


def test_every_model_belongs_to_a_row_and_has_prices_of_a_known_day() -> None:
    catalog = _catalog()

    for (provider, _), info in catalog.models.items():
        assert provider in catalog.providers
        assert info.prices is not None, info.id
        assert info.prices.input is not None, info.id
        assert info.prices.output is not None, info.id
        assert info.as_of is not None
        assert date.fromisoformat(info.as_of) <= datetime.now(UTC).date()


def test_public_names() -> None:
    assert swink_provider_openai.__all__ == [
        "ChatConverter",
        "ChatParser",
        "Dialect",
        "OpenAIProvider",
    ]

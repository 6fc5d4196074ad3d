"""The table of providers in the documentation says what the code does."""

from __future__ import annotations

import empty_cells
import generate_providers
import pytest
from generate_reference import FOLDER

from swink_core import Host
from swink_core.providers import Catalog


def test_the_list_of_names_is_up_to_date() -> None:
    written = generate_providers.NAMES.read_text("utf-8")
    assert written == generate_providers.names(), "run make reference"


def test_another_page_counts_them_alike() -> None:
    page = FOLDER.parent / "explanation" / "command-lines-compared.md"
    assert f", {len(Host().provider_names())} in total" in page.read_text("utf-8")


@pytest.mark.parametrize("name", Host().provider_names())
def test_every_installed_provider_is_on_the_page(name: str) -> None:
    tables = (FOLDER / "providers.md").read_text("utf-8").split("\n## ")[1:5]
    assert [f"| `{name}` |" in table for table in tables] == [True] * 4


def test_the_environment_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before, catalog = generate_providers.page(), Catalog(Host())
    for name in Host().provider_names():
        info = catalog.provider(name)
        for variable in info.base_url_env if info else ():
            monkeypatch.setenv(variable, "http://elsewhere.example/base")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "a-project")
    monkeypatch.setenv("SWINK_MODELS", "no-such-file.toml")
    assert generate_providers.page() == before


def test_every_empty_cell_has_a_reason_and_no_reason_is_idle() -> None:
    with pytest.raises(LookupError, match="does not say why acme has no wings"):
        empty_cells.reason_of("wings", "acme")
    with pytest.raises(LookupError, match="explains what is not empty"):
        empty_cells.explained([("images", "local")])

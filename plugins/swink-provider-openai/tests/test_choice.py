"""Which API a call is asked over, by rules as they stand in a file."""

from __future__ import annotations

from swink_core import Model, StreamOptions
from swink_core.plugins.package_data import PackageCatalog
from swink_provider_openai.choice import api_of


def ruled(*rules: str) -> Model:
    """A model with these rules."""
    text = "\n".join(f"[[rules]]\n{rule}" for rule in rules)
    return Model("acme", "large", rules=tuple(PackageCatalog.read(text.encode(), "a file").rules()))


def test_a_rule_says_which_api_is_asked() -> None:
    model = ruled('api = "new"', 'when = { stop = ["set"] }\napi = "old"')

    assert api_of(model, StreamOptions()) == "new"
    assert api_of(model, StreamOptions(stop="END")) == "old"
    assert api_of(ruled(), StreamOptions()) is None


def test_a_rule_that_names_no_api_or_is_for_one_chooses_none() -> None:
    chosen, other, own = 'api = "new"', "takes = { seed = true }", 'apis = ["old"]\napi = "older"'

    assert api_of(ruled(chosen, other, own), StreamOptions()) == "new"
    assert api_of(ruled(other, own), StreamOptions()) is None

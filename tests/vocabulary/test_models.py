"""Names of models, and their known properties."""

from __future__ import annotations

import pytest

from swink_core import Model, ModelInfo
from swink_core.vocabulary.models import Rule

# (name, provider, id)
NAMES = [
    ("acme/large", "acme", "large"),
    ("router/acme/large", "router", "acme/large"),
    ("local/path/to/model.gguf", "local", "path/to/model.gguf"),
    ("acme/large:free", "acme", "large:free"),
]


@pytest.mark.parametrize(("name", "provider", "model_id"), NAMES)
def test_a_models_name_is_split_at_its_first_slash(name: str, provider: str, model_id: str) -> None:
    model = Model.parse(name)
    assert (model.provider, model.id, str(model)) == (provider, model_id, name)


@pytest.mark.parametrize("name", ["", "large", "/large", "acme/", "/"])
def test_an_invalid_model_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a model name: write provider/id"):
        Model.parse(name)


def test_models_are_equal_by_name_whatever_is_known_of_them() -> None:
    known = Model("acme", "large", ModelInfo("large"))
    assert known == Model("acme", "large")
    assert hash(known) == hash(Model("acme", "large"))


def test_a_model_lacks_only_what_the_catalogue_says_it_lacks() -> None:
    assert not Model("acme", "large").lacks("tools")
    assert not Model("acme", "large", ModelInfo("large")).lacks("tools")
    known = Model("acme", "large", ModelInfo("large", capabilities=frozenset({"images"})))
    assert known.lacks("tools")
    assert not known.lacks("images")


@pytest.mark.parametrize("known", [ModelInfo("large"), Rule(name="large")], ids=["info", "rule"])
def test_facts_of_a_catalogue_are_shared_by_all_calls(known: ModelInfo | Rule) -> None:
    with pytest.raises(AttributeError):
        known.api = "another"  # type: ignore[misc]
    assert known.api is None


# what the `takes` and `when` of a rule may name, besides options
NAMED = (
    "assistant_audio", "assistant_documents", "assistant_images", "audio", "buffered_transport",
    "documents", "extensions", "extensions_of_others", "file_ids", "file_ids_of_others", "images",
    "json", "stop", "strict", "structured_output", "system_messages", "tool_choice", "tools",
    "websocket_transport",
    "prefill", "assistant_first", "call_first", "blank_end", "blank_stop", "recursive_schema",
    "root_schema", "trailing_space", "calls_apart",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_a_rule_may_name_each_feature_and_each_form(name: str) -> None:
    assert Rule(takes={name: False}, when={name: ("set",)}).takes == {name: False}


@pytest.mark.parametrize("name", ["colour", "tool", "prefills"])
@pytest.mark.parametrize("key", ["takes", "when"])
def test_a_rule_may_name_nothing_else(key: str, name: str) -> None:
    with pytest.raises(ValueError, match=f'has "{name}" in `{key}`, which is unknown'):
        Rule(match="large", **{key: {name: ("set",)}})

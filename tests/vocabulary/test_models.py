"""Names of models, and their known properties."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from attrs.exceptions import FrozenInstanceError

from swink_core import Model, ModelInfo, ProviderInfo
from swink_core.vocabulary.models import Rule
from swink_core.vocabulary.tokens import MediaTokens

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
    known = Model("acme", "large", ModelInfo("large"), (Rule(name="r"),))
    assert known == Model("acme", "large")
    assert hash(known) == hash(Model("acme", "large"))


def test_a_model_lacks_only_what_the_catalogue_says_it_lacks() -> None:
    assert not Model("acme", "large").lacks("tools")
    assert not Model("acme", "large", ModelInfo("large")).lacks("tools")
    known = Model("acme", "large", ModelInfo("large", capabilities=frozenset({"images"})))
    assert known.lacks("tools")
    assert not known.lacks("images")


def test_a_model_is_shown_by_its_name_alone() -> None:
    model = Model("acme", "large", ModelInfo("large"), (Rule(name="r"),))
    assert repr(model) == "Model(provider='acme', id='large')"
    with pytest.raises(FrozenInstanceError):
        model.id = "small"  # type: ignore[misc]  # on purpose


FACTS: list[Any] = [ModelInfo("large"), ProviderInfo("acme"), Rule(name="large"), MediaTokens()]


@pytest.mark.parametrize("known", FACTS, ids=lambda known: type(known).__name__)
def test_facts_of_a_catalogue_are_fixed_and_have_known_names(known: Any) -> None:
    name = known.__struct_fields__[0]
    with pytest.raises(AttributeError):
        setattr(known, name, None)
    with pytest.raises(msgspec.ValidationError, match="imges"):
        msgspec.convert({**msgspec.to_builtins(known), "imges": 1}, type(known))


def test_what_a_catalogue_does_not_say_is_as_the_reference_says() -> None:
    model, provider = ModelInfo("large"), ProviderInfo("acme")
    assert (model.status, model.capabilities, model.extra) == ("active", None, {})
    assert (provider.auth, provider.api_level, provider.runs_commands) == ("key", 1, False)
    assert (provider.settings, provider.dialect, provider.media) == ({}, {}, None)


# what the rules of a catalogue may state, besides options
STATED = [
    "assistant_audio", "assistant_documents", "assistant_images", "audio", "buffered_transport",
    "documents", "extensions", "extensions_of_others", "file_ids", "file_ids_of_others", "images",
    "json", "stop", "strict", "structured_output", "system_messages", "tool_choice", "tools",
    "websocket_transport",
    "prefill", "assistant_first", "call_first", "blank_end", "blank_stop", "recursive_schema",
    "root_schema", "trailing_space", "calls_apart",
]  # fmt: skip


@pytest.mark.parametrize("name", [*STATED, "temperature"])
def test_a_rule_may_state_each_feature_form_and_tuning_option(name: str) -> None:
    assert Rule(takes={name: False}).takes == {name: False}
    assert Rule(when={name: ("set",)}).when == {name: ("set",)}
    for key in ("takes", "when"):
        with pytest.raises(ValueError, match=f'has "{name}_" in `{key}`, which is unknown'):
            msgspec.convert({key: {f"{name}_": []}}, Rule)


def test_a_rule_may_depend_on_options_that_no_rule_takes_away() -> None:
    assert Rule(when={"transport": ("websocket",)}).when == {"transport": ("websocket",)}
    with pytest.raises(ValueError, match='has "transport" in `takes`'):
        Rule(takes={"transport": False})


def test_a_rule_may_limit_the_number_of_tools_and_documents() -> None:
    rule = Rule(least={"temperature": 1}, most={"tools": 128, "documents": 5, "stop": 4})
    assert rule.most == {"tools": 128, "documents": 5, "stop": 4}


def test_each_rule_is_another_and_made_of_named_facts() -> None:
    one, other = Rule(most={"tools": 1}), Rule(most={"tools": 1})
    assert len({one, other}) == 2
    with pytest.raises(TypeError):
        Rule("large")  # type: ignore[call-arg]  # on purpose

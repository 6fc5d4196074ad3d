"""The table of options: the kind of each, where it can be set, and the signatures made of it."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import pytest
from attrs.exceptions import FrozenInstanceError

from swink_core import Client, Options, StreamOptions, Timeouts
from swink_core.vocabulary.option_table import OPTIONS, TUNING, Option
from swink_core.vocabulary.options import OptionKind

KINDS: dict[str, set[str]] = {
    "tuning": {
        "temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty",
        "max_tokens", "seed", "session_id", "user", "thinking", "parallel_tool_calls", "cache",
    },
    "answer": {"stop", "tool_choice", "response_format"},
    "provider": {"api_key", "base_url", "headers", "settings", "extra"},
    "conversation": {"system_prompt", "tools"},
}  # fmt: skip
KINDS["call"] = set(OPTIONS).difference(*KINDS.values())


@pytest.mark.parametrize("kind", get_args(OptionKind))
def test_each_option_is_of_one_kind(kind: str) -> None:
    assert {name for name, option in OPTIONS.items() if option.kind == kind} == KINDS[kind]


def test_tuning_is_listed_in_the_order_of_the_table() -> None:
    assert list(TUNING) == [name for name in OPTIONS if name in KINDS["tuning"]]


def test_every_option_has_a_meaning() -> None:
    assert list(OPTIONS) == list(Options.__annotations__)
    for name, option in OPTIONS.items():
        assert option.name == name
        assert option.meaning.endswith(".")


# (a function, an option, the default that its signature shows)
DEFAULTS: list[tuple[Any, str, Any]] = [
    (Client.stream, "transport", "auto"),
    (Client.stream, "rules", True),
    (Client.stream, "retired", False),
    (Client.stream, "max_output_chars", 33_554_432),
    (Client.stream, "temperature", None),
    (Client.stream, "stop", None),
    (Client.stream, "timeouts", None),
    (Client.stream, "headers", None),
    (Client.stream, "system_prompt", None),
    (Client, "timeout", None),
    (Client, "transport", "auto"),
]


@pytest.mark.parametrize(("function", "name", "default"), DEFAULTS)
def test_a_signature_shows_plain_defaults_and_none_for_others(
    function: Any, name: str, default: Any
) -> None:
    parameter = inspect.signature(function).parameters[name]
    assert (type(parameter.default), parameter.default) == (type(default), default)
    assert parameter.annotation == OPTIONS[name].type
    assert parameter.kind is parameter.KEYWORD_ONLY


# (an option, where it can be set)
PLACES = [
    ("temperature", ("client", "provider", "model", "call")),
    ("timeout", ("client", "provider", "model", "call")),
    ("api_key", ("provider", "model", "call")),
    ("tools", ("call",)),
]


@pytest.mark.parametrize(("name", "places"), PLACES)
def test_an_option_says_where_it_can_be_set(name: str, places: tuple[str, ...]) -> None:
    assert OPTIONS[name].set_by == places


def test_an_option_knows_the_types_of_its_values() -> None:
    assert OPTIONS["temperature"].types == {int, float}
    assert OPTIONS["min_p"].types == {float}
    assert OPTIONS["stop"].types == {tuple}
    assert str in OPTIONS["transport"].types
    assert OPTIONS["tools"].annotation is None


def test_a_row_has_the_annotation_and_the_default_of_its_option() -> None:
    assert OPTIONS["timeout"].type == "float | None"
    assert OPTIONS["max_tokens"].type == "int | None"
    assert OPTIONS["timeouts"].default == Timeouts()
    assert OPTIONS["headers"].default == {}
    assert (OPTIONS["stop"].default, OPTIONS["top_k"].default) == ((), None)


def test_options_of_this_machines_connection_are_local() -> None:
    assert {name for name, option in OPTIONS.items() if option.local} == {
        "api_key", "base_url", "download_media", "headers", "max_output_chars", "retry", "timeout",
        "timeouts",
    }  # fmt: skip


def test_the_documentation_of_the_options_lists_their_fields() -> None:
    text = StreamOptions.__doc__ or ""
    listed = text.partition("\n\nOptions:\n\n")[2].split("\n")
    fields = [option for name, option in OPTIONS.items() if name in StreamOptions.names()]
    assert listed == [f"* {option.name}: {option.meaning}" for option in fields]


def test_a_row_is_fixed_and_made_of_named_facts() -> None:
    row: Any = OPTIONS["top_k"]
    with pytest.raises(FrozenInstanceError):
        row.kind = "call"
    with pytest.raises(TypeError):
        Option("a", "int", "call", "A number.")  # type: ignore[misc]  # on purpose


def test_an_option_without_further_facts_has_none() -> None:
    option = Option(name="a", type="int", kind="call", meaning="A number.")
    assert (option.default, option.example, option.local) == (None, None, False)


EXAMPLES: dict[str, Any] = {
    "temperature": 0.2, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "presence_penalty": 0.5,
    "frequency_penalty": 0.5, "max_tokens": 1000, "stop": ("END",), "seed": 7,
    "session_id": "s-1", "user": "u", "transport": "buffered", "thinking": "low",
    "tool_choice": "required", "parallel_tool_calls": False, "response_format": "json",
    "cache": "auto", "malformed": "skip",
}  # fmt: skip


def test_what_a_provider_is_sent_has_an_example() -> None:
    assert {name: each.example for name, each in OPTIONS.items() if each.example is not None} == (
        EXAMPLES
    )
    assert {*TUNING} < {*EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_not_what_apis_do_anyway(name: str) -> None:
    assert StreamOptions(**{name: EXAMPLES[name]}) != StreamOptions()

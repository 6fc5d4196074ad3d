"""A request's body is joined by one rule from defaults, `extra` and options."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import Model, StreamOptions
from swink_core.providers import with_extra
from swink_core.providers.fields import layered_extra
from swink_core.providers.knobs import sent_options

ROWS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("nothing", {}, {}, {}, {}),
    ("extra over a default", {"a": 1}, {"a": 2}, {}, {"a": 2}),
    ("a field over extra", {"a": 1}, {"a": 2}, {"a": 3}, {"a": 3}),
    (
        "objects merge at every depth",
        {"a": {"x": {"d": 1}}},
        {"a": {"x": {"e": 2}, "y": 3}},
        {"a": {"x": {"f": 4}, "y": 5}},
        {"a": {"x": {"d": 1, "e": 2, "f": 4}, "y": 5}},
    ),
    ("none removes a default", {"a": 1, "b": 2}, {"a": None}, {}, {"b": 2}),
    (
        "none removes at every depth",
        {"a": {"x": 1}},
        {"a": {"x": None, "y": None}},
        {"a": {"z": 1}},
        {"a": {"z": 1}},
    ),
    ("none in extra gives way to a field", {}, {"a": None}, {"a": 0}, {"a": 0}),
    (
        "none in a field is a value",
        {},
        {"a": {"b": 1}},
        {"a": {"schema": {"default": None}}},
        {"a": {"b": 1, "schema": {"default": None}}},
    ),
    (
        "what is false is kept",
        {"a": 1, "b": True, "c": "x"},
        {"a": 0, "b": False, "c": ""},
        {},
        {"a": 0, "b": False, "c": ""},
    ),
    (
        "tools are joined, those of the conversation first",
        {},
        {"tools": [{"type": "search"}]},
        {"tools": [{"name": "look"}]},
        {"tools": [{"name": "look"}, {"type": "search"}]},
    ),
    (
        "tools within an object are joined",
        {},
        {"toolConfig": {"tools": [2], "toolChoice": {}}},
        {"toolConfig": {"tools": [1]}},
        {"toolConfig": {"tools": [1, 2], "toolChoice": {}}},
    ),
    (
        "includes are joined, each once",
        {"include": ["a", "b"]},
        {"include": ["b", "c"]},
        {},
        {"include": ["b", "c", "a"]},
    ),
    ("every other list is replaced", {"stop": [1]}, {"stop": [2]}, {}, {"stop": [2]}),
    ("an object over a word", {"a": "x"}, {"a": {"b": 1}}, {}, {"a": {"b": 1}}),
    ("a word over an object", {"a": {"b": 1}}, {"a": "x"}, {}, {"a": "x"}),
]


@pytest.mark.parametrize(
    ("defaults", "extra", "fields", "expected"),
    [row[1:] for row in ROWS],
    ids=[row[0].replace(" ", "-") for row in ROWS],
)
def test_later_wins(
    defaults: dict[str, Any],
    extra: dict[str, Any],
    fields: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    assert with_extra(extra, fields, defaults) == expected


def test_nothing_that_was_given_is_changed() -> None:
    defaults = {"a": {"x": 1}, "tools": [1]}
    extra = {"a": {"y": {"z": None}}, "tools": [2]}
    fields = {"a": {"w": 2}, "tools": [3]}
    body = with_extra(extra, fields, defaults)
    body["a"]["y"]["new"] = 1
    body["tools"].append(4)
    assert defaults == {"a": {"x": 1}, "tools": [1]}
    assert extra == {"a": {"y": {"z": None}}, "tools": [2]}
    assert fields == {"a": {"w": 2}, "tools": [3]}


OWN: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"top_k": 3, "other": 1}, {"top_k": 3}),
    ({"reasoning": {"effort": "low", "other": 1}}, {"reasoning": {"effort": "low"}}),
    ({"reasoning": {"other": 1}}, {}),
    ({"reasoning": "low"}, {"reasoning": "low"}),
    ({"metadata": {"a": {"b": 1}}}, {"metadata": {"a": {"b": 1}}}),
]
"""The fields of a call, and the fields among them that replace options of the client."""


@pytest.mark.parametrize(("own", "over"), OWN)
def test_a_calls_own_fields_take_precedence_over_inherited_options_alone(
    own: dict[str, Any], over: dict[str, Any]
) -> None:
    places = {"top_k": ("top_k",), "thinking": ("reasoning.effort",)}
    found = layered_extra(own, own, ["top_k", "thinking", "metadata"], places)
    assert found.over == over


def test_options_are_sent_in_their_fields_at_any_depth() -> None:
    knobs: dict[str, Any] = {
        "max_tokens": "options.num_predict",
        "temperature": "options.temperature",
        "seed": "seed",
        "top_p": "top_p",
        "stop": None,
        "top_k": lambda model, options: {"options": {"top_k": options.top_k}},
    }
    options = StreamOptions(max_tokens=9, temperature=0.5, seed=7, stop="END", top_k=3)
    assert sent_options(knobs, Model("acme", "m"), options) == {
        "options": {"num_predict": 9, "temperature": 0.5, "top_k": 3},
        "seed": 7,
    }

"""Options as fields of the request, and what is said of those that are bent."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import (
    Client,
    Context,
    Model,
    ModelInfo,
    StreamOptions,
    Tool,
    UserMessage,
)
from swink_provider_anthropic import AnthropicProvider
from swink_testing.driver import MemoryHTTPClient

PROVIDER = AnthropicProvider("anthropic")
ALL = ["low", "medium", "high", "xhigh", "max"]


def _model(**extra: Any) -> Model:
    return Model("anthropic", "any", ModelInfo("any", max_output=64_000, extra=extra))


BUDGET = _model()
ADAPTIVE = _model(thinking="adaptive", efforts=ALL, sampling=False)
FOUR_SIX = _model(thinking="adaptive", efforts=["low", "medium", "high", "max"])
UNKNOWN = Model("anthropic", "unknown")
SIMPLE = Model("anthropic", "any", ModelInfo("any", capabilities=frozenset({"tools"})))


def _fields(model: Model, tools: bool = False, **options: Any) -> dict[str, Any]:
    """The request's body without the conversation."""
    context = Context([UserMessage("Hi")], tools=[Tool("look")] if tools else [])
    chosen = StreamOptions(base_url="https://example.com", **options)
    request = PROVIDER.request(model, PROVIDER.convert(model, context, chosen), chosen)
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return {k: v for k, v in body.items() if k not in ("messages", "tools", "model", "stream")}


def _notices(model: Model, **options: Any) -> list[str]:
    return [notice.detail for notice in PROVIDER.notices(model, StreamOptions(**options))]


def _enabled(budget: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _adaptive(effort: str) -> dict[str, Any]:
    return {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": effort},
    }


FIELDS: list[tuple[str, Model, dict[str, Any], dict[str, Any]]] = [
    ("nothing", BUDGET, {}, {"max_tokens": 64_000}),
    ("nothing, of an unknown model", UNKNOWN, {}, {"max_tokens": 4096}),
    (
        "tuning",
        BUDGET,
        {"max_tokens": 9, "temperature": 0.2, "stop": ["A", "B"], "session_id": "s"},
        {
            "max_tokens": 9,
            "temperature": 0.2,
            "stop_sequences": ["A", "B"],
            "metadata": {"user_id": "s"},
        },
    ),
    ("top_k", BUDGET, {"max_tokens": 9, "top_k": 0}, {"max_tokens": 9, "top_k": 0}),
    ("who asks", UNKNOWN, {"user": "u"}, {"max_tokens": 4096, "metadata": {"user_id": "u"}}),
    ("top_p alone", BUDGET, {"max_tokens": 9, "top_p": 0.3}, {"max_tokens": 9, "top_p": 0.3}),
    (
        "a thinking level",
        BUDGET,
        {"thinking": "high"},
        {"max_tokens": 64_000, **_enabled(10_000)},
    ),
    ("a budget", BUDGET, {"thinking": 3000}, {"max_tokens": 64_000, **_enabled(3000)}),
    ("too small a budget", BUDGET, {"thinking": 5}, {"max_tokens": 64_000, **_enabled(1024)}),
    (
        "a budget beyond max_tokens",
        BUDGET,
        {"thinking": 3000, "max_tokens": 2000},
        {"max_tokens": 2000, **_enabled(1999)},
    ),
    (
        "a budget that just fits",
        UNKNOWN,
        {"thinking": "high"},
        {"max_tokens": 4096, **_enabled(4095)},
    ),
    (
        "a Claude that nobody knows is asked as the newest are",
        Model("anthropic", "claude-opus-7"),
        {"thinking": "high"},
        {"max_tokens": 4096, **_adaptive("high")},
    ),
    (
        "an old Claude that nobody knows is asked as it was",
        Model("anthropic", "claude-opus-4-1"),
        {"thinking": 2000},
        {"max_tokens": 4096, **_enabled(2000)},
    ),
    ("thinking off", BUDGET, {"thinking": "off"}, {"max_tokens": 64_000}),
    ("a model that cannot think", SIMPLE, {"thinking": "high"}, {"max_tokens": 4096}),
    (
        "top_p with thinking, high enough",
        BUDGET,
        {"thinking": 3000, "top_p": 0.97},
        {
            "max_tokens": 64_000,
            "thinking": {"type": "enabled", "budget_tokens": 3000},
            "top_p": 0.97,
        },
    ),
    (
        "adaptive thinking, minimal",
        ADAPTIVE,
        {"thinking": "minimal"},
        {"max_tokens": 64_000, **_adaptive("low")},
    ),
    (
        "adaptive thinking, extra high",
        ADAPTIVE,
        {"thinking": "extra_high"},
        {"max_tokens": 64_000, **_adaptive("xhigh")},
    ),
    (
        "adaptive thinking, extra high, where there is none",
        FOUR_SIX,
        {"thinking": "extra_high"},
        {"max_tokens": 64_000, **_adaptive("max")},
    ),
    (
        "adaptive thinking from a budget",
        ADAPTIVE,
        {"thinking": 4000},
        {"max_tokens": 64_000, **_adaptive("medium")},
    ),
    (
        "thinking off where it is on by default",
        _model(thinking="adaptive", thinking_off="disabled"),
        {"thinking": "off"},
        {"max_tokens": 64_000, "thinking": {"type": "disabled"}},
    ),
    (
        "a schema, closed as the API wants it",
        BUDGET,
        {
            "response_format": {
                "type": "object",
                "properties": {
                    "list": {"type": "array", "items": {"type": "object", "properties": {}}},
                    "open": {"type": ["object", "null"], "additionalProperties": True},
                },
            }
        },
        {
            "max_tokens": 64_000,
            "output_config": {
                "format": {
                    "type": "json_schema",
                    "schema": {
                        "type": "object",
                        "properties": {
                            "list": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {},
                                    "additionalProperties": False,
                                },
                            },
                            "open": {"type": ["object", "null"], "additionalProperties": True},
                        },
                        "additionalProperties": False,
                    },
                }
            },
        },
    ),
    (
        "a schema and an effort",
        ADAPTIVE,
        {"thinking": "low", "response_format": {"type": "string"}},
        {
            "max_tokens": 64_000,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {"type": "string"}},
            },
        },
    ),
    (
        "a tool's name without tools is left out, since the API refuses it",
        BUDGET,
        {"tool_choice": "look"},
        {"max_tokens": 64_000},
    ),
    (
        "fields of the API's own, over which options win",
        BUDGET,
        {"max_tokens": 9, "extra": {"max_tokens": 8, "top_k": 5, "service_tier": "auto"}},
        {"max_tokens": 9, "top_k": 5, "service_tier": "auto"},
    ),
    (
        "a limit of the API's own, over the most that the model can",
        BUDGET,
        {"extra": {"max_tokens": 2000}, "thinking": 5000},
        {"max_tokens": 2000, **_enabled(1999)},
    ),
    (
        "fields of objects that options make too",
        ADAPTIVE,
        {
            "thinking": "low",
            "extra": {
                "thinking": {"type": "enabled", "block_binding": {}},
                "output_config": {"task_budget": 1},
            },
        },
        {
            "max_tokens": 64_000,
            "thinking": {"type": "adaptive", "display": "summarized", "block_binding": {}},
            "output_config": {"effort": "low", "task_budget": 1},
        },
    ),
]


@pytest.mark.parametrize(
    ("name", "model", "options", "expected"),
    FIELDS,
    ids=[name.replace(" ", "-") for name, *_ in FIELDS],
)
def test_fields(name: str, model: Model, options: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _fields(model, **options) == expected
    assert _notices(model, **options) == ([] if model is not SIMPLE else _SIMPLE_LACKS)


_SIMPLE_LACKS = ["anthropic/any has no option thinking; it was not sent"]

NEVER_OFF = _model(thinking="adaptive", thinking_off="never")

CHANGES: list[tuple[str, Model, dict[str, Any], dict[str, Any], list[str]]] = [
    (
        "temperature with thinking",
        BUDGET,
        {"thinking": 3000, "temperature": 0.2},
        _enabled(3000),
        ["temperature: with thinking it is 1"],
    ),
    (
        "a low top_p with thinking",
        BUDGET,
        {"thinking": 3000, "top_p": 0.5},
        _enabled(3000),
        ["top_p: with thinking at least 0.95; left out"],
    ),
    (
        "temperature and top_p",
        BUDGET,
        {"temperature": 0.2, "top_p": 0.5},
        {"temperature": 0.2},
        ["top_p: not together with temperature; left out"],
    ),
    (
        "top_k with thinking",
        BUDGET,
        {"thinking": 3000, "top_k": 5},
        {"max_tokens": 64_000, **_enabled(3000)},
        ["top_k: not together with thinking; left out"],
    ),
    (
        "a session beside who asks",
        BUDGET,
        {"user": "u", "session_id": "s"},
        {"max_tokens": 64_000, "metadata": {"user_id": "u"}},
        ["session_id: its place is taken by user; left out"],
    ),
    (
        "no room for thinking",
        BUDGET,
        {"thinking": "low", "max_tokens": 1024},
        {"max_tokens": 1024},
        ["thinking: max_tokens leaves less than 1024 for it; left out"],
    ),
    (
        "a forced call and a budget",
        BUDGET,
        {"thinking": "low", "tool_choice": "required"},
        {"tool_choice": {"type": "any"}},
        ["thinking: not together with a tool_choice that forces a call; left out"],
    ),
    (
        "a forced call and adaptive thinking get along",
        ADAPTIVE,
        {"thinking": "low", "tool_choice": "required"},
        {**_adaptive("low"), "tool_choice": {"type": "any"}},
        [],
    ),
    (
        "a model without sampling",
        ADAPTIVE,
        {"temperature": 1.0, "top_p": 0.5},
        {},
        [
            "temperature: not with this model; left out",
            "top_p: not with this model; left out",
        ],
    ),
    (
        "a model that always thinks",
        NEVER_OFF,
        {"thinking": "off"},
        {},
        ["thinking: this model cannot be told not to think"],
    ),
    (
        "an option that the API lacks",
        BUDGET,
        {"seed": 7},
        {},
        ["anthropic/any has no option seed; it was not sent"],
    ),
]


@pytest.mark.parametrize(
    ("name", "model", "options", "expected", "said"),
    CHANGES,
    ids=[name.replace(" ", "-") for name, *_ in CHANGES],
)
def test_what_is_left_out_or_changed_is_said(
    name: str, model: Model, options: dict[str, Any], expected: dict[str, Any], said: list[str]
) -> None:
    assert _fields(model, tools=True, **options) == {"max_tokens": 64_000, **expected}
    assert _notices(model, **options) == [
        line if line.startswith("anthropic/") else f"anthropic/any: {line}" for line in said
    ]


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "none"}, {"type": "none"}),
        ({"tool_choice": "required"}, {"type": "any"}),
        ({"tool_choice": "look"}, {"type": "tool", "name": "look"}),
        ({"parallel_tool_calls": False}, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"tool_choice": "look", "parallel_tool_calls": True},
            {"type": "tool", "name": "look", "disable_parallel_tool_use": False},
        ),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
    ],
    ids=str,
)
def test_tool_choice(options: dict[str, Any], choice: dict[str, Any] | None) -> None:
    assert _fields(BUDGET, tools=True, **options).get("tool_choice") == choice


def test_the_servers_own_tools_come_after_the_conversations() -> None:
    search = {"type": "web_search_20260209", "name": "web_search"}
    options = StreamOptions(base_url="https://example.com", extra={"tools": [search]})
    context = Context([UserMessage("Hi")], tools=[Tool("look")])
    request = PROVIDER.request(BUDGET, PROVIDER.convert(BUDGET, context, options), options)
    names = [tool["name"] for tool in msgspec.json.decode(request.body)["tools"]]
    assert names == ["look", "web_search"]


def test_a_choice_among_the_servers_own_tools_is_sent() -> None:
    search = {"type": "web_search_20260209", "name": "web_search"}
    fields = _fields(BUDGET, tool_choice="web_search", extra={"tools": [search]})
    assert fields["tool_choice"] == {"type": "tool", "name": "web_search"}


@pytest.mark.parametrize(
    ("name", "thinking"),
    [
        ("claude-opus-5-5", "adaptive"),
        ("claude-haiku-5-5", "adaptive"),
        ("claude-sonnet-4-6", "adaptive"),
        ("claude-sonnet-4-5", "enabled"),
        ("claude-of-tomorrow", "adaptive"),
    ],
)
async def test_the_catalogue_says_how_a_model_thinks(name: str, thinking: str) -> None:
    async with Client(http=MemoryHTTPClient()) as client:
        model = client.catalog.resolve(f"anthropic/{name}")
    assert _fields(model, thinking="high")["thinking"]["type"] == thinking

"""Options as fields of `generationConfig`, by what models take."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import Catalog, Context, Host, Model, Notice, StreamOptions, Tool, UserMessage
from swink_provider_gemini import GeminiProvider
from swink_provider_gemini.parameters import generation

PROVIDER = GeminiProvider("gemini")
CATALOG = Catalog(Host(environ={}), environ={})
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def _asked(model: str, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """The body, and what notices say was ignored or changed."""
    known = CATALOG.resolve(f"gemini/{model}")
    asked = StreamOptions(base_url="http://any", **options)
    context = Context([UserMessage("Hi")])
    body = msgspec.json.decode(
        PROVIDER.request(known, PROVIDER.convert(known, context, asked), asked).body
    )
    del body["contents"]
    details = [notice.detail for notice in PROVIDER.notices(known, asked)]
    return body, [detail.removeprefix(f"{known}: ") for detail in details]


PLAIN: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("nothing", {}, {}),
    ("temperature", {"temperature": 0.5}, {"temperature": 0.5}),
    ("temperature 0", {"temperature": 0}, {"temperature": 0}),
    ("top_p", {"top_p": 0.9}, {"topP": 0.9}),
    ("top_k", {"top_k": 40}, {"topK": 40}),
    ("presence_penalty", {"presence_penalty": 0.0}, {"presencePenalty": 0.0}),
    ("frequency_penalty", {"frequency_penalty": 0.5}, {"frequencyPenalty": 0.5}),
    ("max_tokens", {"max_tokens": 7}, {"maxOutputTokens": 7}),
    ("seed", {"seed": 0}, {"seed": 0}),
    ("stop", {"stop": ["a", "b"]}, {"stopSequences": ["a", "b"]}),
    ("json", {"response_format": "json"}, {"responseMimeType": "application/json"}),
    (
        "a schema",
        {"response_format": SCHEMA},
        {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA},
    ),
    (
        "extra adds",
        {"temperature": 1, "extra": {"generationConfig": {"topK": 40, "temperature": 0}}},
        {"topK": 40, "temperature": 1},
    ),
]


@pytest.mark.parametrize(("name", "options", "config"), PLAIN, ids=[name for name, *_ in PLAIN])
def test_options(name: str, options: dict[str, Any], config: dict[str, Any]) -> None:
    assert _asked("gemini-2.5-flash", **options) == (
        {"generationConfig": config} if config else {},
        [],
    )


def _level(word: str, show: bool = True) -> dict[str, Any]:
    return {"thinkingLevel": word, **({"includeThoughts": True} if show else {})}


def _budget(tokens: int, show: bool = True) -> dict[str, Any]:
    return {"thinkingBudget": tokens, **({"includeThoughts": True} if show else {})}


THINKING: list[tuple[str, Any, dict[str, Any] | None]] = [
    ("gemini-2.5-flash", None, None),
    ("gemini-2.5-flash", "off", _budget(0, False)),
    ("gemini-2.5-flash", 0, _budget(0, False)),
    ("gemini-2.5-flash", "minimal", _budget(1024)),
    ("gemini-2.5-flash", "low", _budget(2048)),
    ("gemini-2.5-flash", "medium", _budget(5000)),
    ("gemini-2.5-flash", "high", _budget(10_000)),
    ("gemini-2.5-flash", "extra_high", _budget(20_000)),
    ("gemini-2.5-flash", 12_345, _budget(12_345)),
    ("gemini-2.5-flash", 99_999, _budget(24_576)),
    ("gemini-2.5-flash-lite", 100, _budget(512)),
    ("gemini-2.5-pro", 99_999, _budget(32_768)),
    ("gemini-3.5-flash", None, None),
    ("gemini-3.5-flash", "minimal", _level("MINIMAL")),
    ("gemini-3.5-flash", "low", _level("LOW")),
    ("gemini-3.5-flash", "medium", _level("MEDIUM")),
    ("gemini-3.5-flash", "high", _level("HIGH")),
    ("gemini-3.5-flash", "extra_high", _level("HIGH")),
    ("gemini-3.5-flash", 3000, _level("MEDIUM")),
    ("gemini-3.8-flash", "minimal", _level("LOW")),
    ("gemini-4-argon", "extra_high", _level("HIGH")),
    # outside the catalogue
    ("gemini-9-neon", "minimal", _level("LOW")),
    ("gemini-9-neon", "extra_high", _level("HIGH")),
    ("gemini-2.5-flash-001", "low", _budget(2048)),
    ("tunedModels/mine", "low", _budget(2048)),
]


@pytest.mark.parametrize(("model", "thinking", "config"), THINKING)
def test_thinking(model: str, thinking: Any, config: dict[str, Any] | None) -> None:
    body, told = _asked(model, thinking=thinking)
    assert body.get("generationConfig", {}).get("thinkingConfig") == config
    assert told == []


@pytest.mark.parametrize(
    ("model", "config", "least"),
    [
        ("gemini-2.5-pro", _budget(128, False), "128 tokens"),
        ("gemini-3.5-flash", _level("MINIMAL", False), "MINIMAL"),
        ("gemini-3.1-pro-preview", _level("LOW", False), "LOW"),
    ],
)
def test_models_that_always_think_are_asked_for_the_least(
    model: str, config: dict[str, Any], least: str
) -> None:
    body, told = _asked(model, thinking="off")
    assert body["generationConfig"]["thinkingConfig"] == config
    assert told == [f"thinking: this model cannot be told not to think; {least} is its least"]


def test_newer_models_get_no_sampling_and_a_notice_says_so() -> None:
    body, told = _asked("gemini-3.8-flash", temperature=0.5, top_p=0.5, top_k=0, seed=1)
    assert body == {"generationConfig": {"seed": 1}}
    assert told == [
        "temperature: this model has none; left out",
        "top_p: this model has none; left out",
        "top_k: this model has none; left out",
    ]


def test_options_that_the_api_lacks_are_told() -> None:
    model = Model("gemini", "any")
    options = StreamOptions(session_id="s", cache="auto", parallel_tool_calls=False)
    assert PROVIDER.notices(model, options) == tuple(
        Notice("option_ignored", f"gemini/any has no option {name}; it was not sent")
        for name in ("session_id", "parallel_tool_calls", "cache")
    )


TOOL = Tool("look", "", SCHEMA)
CHOICES: list[tuple[str | None, dict[str, Any] | None]] = [
    (None, None),
    ("auto", {"mode": "AUTO"}),
    ("none", {"mode": "NONE"}),
    ("required", {"mode": "ANY"}),
    ("look", {"mode": "ANY", "allowedFunctionNames": ["look"]}),
]


def _body(context: Context, **options: Any) -> dict[str, Any]:
    model, asked = Model("gemini", "any"), StreamOptions(base_url="http://any", **options)
    request = PROVIDER.request(model, PROVIDER.convert(model, context, asked), asked)
    body: dict[str, Any] = msgspec.json.decode(request.body)
    return body


@pytest.mark.parametrize(("choice", "config"), CHOICES)
def test_tool_choice(choice: str | None, config: dict[str, Any] | None) -> None:
    body = _body(Context([UserMessage("Hi")], tools=[TOOL]), tool_choice=choice)
    assert body.get("toolConfig") == (config and {"functionCallingConfig": config})


def test_without_functions_there_is_nothing_to_choose() -> None:
    only_search = {"tools": [{"googleSearch": {}}]}
    body = _body(Context([UserMessage("Hi")]), tool_choice="required", extra=only_search)
    assert "toolConfig" not in body


def test_extra_adds_fields_tools_and_settings() -> None:
    body = _body(
        Context([UserMessage("Hi")], tools=[TOOL]),
        tool_choice="required",
        extra={
            "tools": [{"googleSearch": {}}],
            "toolConfig": {"includeServerSideToolInvocations": True},
            "cachedContent": "cachedContents/1",
            "contents": [],
        },
    )
    declared = {"functionDeclarations": [{"name": "look", "parametersJsonSchema": SCHEMA}]}
    assert body == {
        "contents": [{"role": "user", "parts": [{"text": "Hi"}]}],
        "tools": [declared, {"googleSearch": {}}],
        "toolConfig": {
            "includeServerSideToolInvocations": True,
            "functionCallingConfig": {"mode": "ANY"},
        },
        "cachedContent": "cachedContents/1",
    }


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("gemini-3.5-flash", 3),
        ("models/gemini-2.5-pro", 2),
        ("gemini-10-xenon", 10),
        ("gemma-4-31b-it", None),
        ("gemini-pro", None),
    ],
)
def test_the_generation_is_read_from_the_name(id: str, expected: int | None) -> None:
    assert generation(Model("gemini", id)) == expected

"""Options as fields of `generationConfig`, by what models take."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    DocumentBlock,
    TextBlock,
    Tool,
    UserMessage,
)
from swink_provider_gemini import GeminiProvider, VertexProvider
from swink_test_helpers.outgoing import Leaving, leaving

PROVIDER = GeminiProvider("gemini")
HI = UserMessage("Hi")
SCHEMA = {"type": "object", "properties": {"x": {"type": "integer"}}}


def _asked(model: str, context: Context | str = "Hi", **options: Any) -> Leaving:
    return leaving(PROVIDER, f"gemini/{model}", context, **options)


def _config(found: Leaving) -> dict[str, Any]:
    config: dict[str, Any] = found.body.get("generationConfig", {})
    return config


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
        "a schema with references",
        {"response_format": {"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": SCHEMA}}},
        {"responseMimeType": "application/json", "responseJsonSchema": {"anyOf": [SCHEMA]}},
    ),
    (
        "extra adds",
        {"temperature": 1, "extra": {"generationConfig": {"topK": 40, "temperature": 0}}},
        {"topK": 40, "temperature": 1},
    ),
]


@pytest.mark.parametrize(("name", "options", "config"), PLAIN, ids=[name for name, *_ in PLAIN])
def test_options(name: str, options: dict[str, Any], config: dict[str, Any]) -> None:
    found = _asked("gemini-2.5-flash", **options)
    assert _config(found) == config
    assert (found.notices, found.refused_by) == ([], [])


def _level(word: str) -> dict[str, Any]:
    return {"thinkingLevel": word, "includeThoughts": True}


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
    ("gemini-2.0-flash", None, None),
    ("gemini-2.0-flash", "off", None),
    ("gemini-3.5-flash", None, None),
    ("gemini-3.5-flash", "minimal", _level("MINIMAL")),
    ("gemini-3.5-flash", "low", _level("LOW")),
    ("gemini-3.5-flash", "medium", _level("MEDIUM")),
    ("gemini-3.5-flash", "high", _level("HIGH")),
    ("gemini-4-hydrogen", "extra_high", _level("XHIGH")),
    ("gemini-5-hydrogen", "extra_high", _level("XHIGH")),
    ("gemini-4-carbon", "high", _level("HIGH")),
    ("gemma-4-31b-it", "minimal", _level("MINIMAL")),
    # outside the catalogue
    ("gemini-9-neon", "high", _level("HIGH")),
    ("gemini-flash-latest", "low", _level("LOW")),
    ("gemini-2.5-flash-001", "low", _budget(2048)),
    ("tunedModels/mine", "low", _budget(2048)),
]


@pytest.mark.parametrize(("model", "thinking", "config"), THINKING)
def test_thinking(model: str, thinking: Any, config: dict[str, Any] | None) -> None:
    found = _asked(model, thinking=thinking)
    assert _config(found).get("thinkingConfig") == config
    assert (found.notices, found.refused_by) == ([], [])


# (model, thinking, its configuration, what is said, the judge's rules without ours)
BENT: list[tuple[str, Any, dict[str, Any] | None, str, list[str]]] = [
    ("gemini-2.5-flash", 99_999, _budget(24_576), "thinking was changed from 99999 to 24576",
     ["gemini-25-flash-budget-high"]),
    ("gemini-2.5-flash-lite", 100, _budget(512), "thinking was changed from 100 to 512",
     ["gemini-25-flash-lite-budget-low"]),
    ("gemini-2.5-pro", 99_999, _budget(32_768), "thinking was changed from 99999 to 32768",
     ["gemini-25-pro-budget-high"]),
    ("gemini-2.5-pro", "off", _budget(128), "thinking was changed from off to 128",
     ["gemini-25-pro-budget-zero"]),
    ("gemini-2.0-flash", "low", None, "does not support thinking; it was not sent",
     ["gemini-no-thinking-2"]),
    ("gemini-3.5-flash", "extra_high", _level("HIGH"),
     "thinking was changed from extra_high to high",
     ["gemini-level-value"]),
    ("gemini-3.5-flash", 3000, _level("MEDIUM"), "thinking was changed from 3000 to medium", []),
    ("gemini-3.5-flash", "off", _level("MINIMAL"), "thinking was changed from off to minimal", []),
    ("gemini-3.7-flash", "minimal", _level("LOW"), "thinking was changed from minimal to low",
     ["gemini-level-minimal"]),
    ("gemini-3.1-pro-preview", "off", _level("LOW"), "thinking was changed from off to low",
     ["gemini-31-pro-budget-zero"]),
    ("gemini-4-argon", "minimal", _level("LOW"), "thinking was changed from minimal to low",
     ["gemini-level-minimal"]),
    ("gemini-4-carbon", "extra_high", _level("HIGH"),
     "thinking was changed from extra_high to high",
     ["gemini-level-value"]),
    ("gemini-4-hydrogen", "off", _level("LOW"), "thinking was changed from off to low", []),
    ("gemini-9-neon", "minimal", _level("LOW"), "thinking was changed from minimal to low", []),
    ("gemma-4-31b-it", "low", _level("HIGH"),
     "thinking was changed from low to high", ["gemma4-level"]),
]  # fmt: skip


@pytest.mark.parametrize(("model", "thinking", "config", "said", "refused_by"), BENT)
def test_thinking_that_a_model_cannot_do_is_bent_and_said_to_be(
    model: str, thinking: Any, config: dict[str, Any] | None, said: str, refused_by: list[str]
) -> None:
    found = _asked(model, thinking=thinking)
    assert _config(found).get("thinkingConfig") == config
    assert (found.notices, found.refused_by) == ([said], [])
    assert _asked(model, thinking=thinking, rules=False).refused_by == refused_by


@pytest.mark.parametrize("model", ["gemini-3.8-flash", "gemini-9-neon"])
def test_newer_models_get_no_sampling_which_they_ignore_and_a_notice_says_so(model: str) -> None:
    found = _asked(model, temperature=0.5, top_p=0.5, top_k=0, seed=1)
    assert _config(found) == {"seed": 1}
    assert found.notices == [
        f"does not support {name}; it was not sent" for name in ("temperature", "top_p", "top_k")
    ]


def test_options_that_the_api_lacks_are_told() -> None:
    found = _asked("any", session_id="s", cache="auto", parallel_tool_calls=False)
    assert found.notices == [
        f"does not support {name}; it was not sent"
        for name in ("session_id", "parallel_tool_calls", "cache")
    ]


@pytest.mark.parametrize(
    ("model", "limit", "said", "refused_by"),
    [
        (
            "gemini-2.5-pro",
            65_535,
            ["max_tokens was changed from 70000 to 65535"],
            ["vertex-max-tokens"],
        ),
        (
            "gemini-2.0-flash",
            8192,
            ["max_tokens was changed from 70000 to 8192"],
            ["vertex-max-tokens-2"],
        ),
        ("gemini-4-argon", 70_000, [], []),
    ],
)
def test_vertex_has_a_limit_for_answers(
    model: str, limit: int, said: list[str], refused_by: list[str]
) -> None:
    asked = (VertexProvider("vertex"), f"vertex/{model}")
    found = leaving(*asked, max_tokens=70_000)
    assert _config(found) == {"maxOutputTokens": limit}
    assert (found.notices, found.refused_by) == (said, [])
    assert leaving(*asked, max_tokens=70_000, rules=False).refused_by == refused_by


TOOLS = Context([HI], tools=[Tool("look", "", SCHEMA)])
PREFILL = Context([HI, AssistantMessage([TextBlock("It is")])])

Refusal = tuple[str, Context, dict[str, Any], str, list[str]]

# (model, conversation, options, what is said, the judge's rules without ours)
REFUSED: list[Refusal] = [
    ("gemini-3.6-flash", PREFILL, {}, "does not support prefill", ["gemini-ends-with-model"]),
    ("gemini-2.5-pro", TOOLS, {"response_format": "json"},
     "does not support json", ["gemini25-functions-and-json"]),
    ("gemini-2.5-pro", TOOLS, {"response_format": SCHEMA},
     "does not support structured output", ["gemini25-functions-and-json"]),
    ("gemini-3.5-flash", Context([HI]), {"stop": [*"abcdef"]},
     "accepts at most 5 values of stop, not 6", ["gemini-stop-five"]),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED)
def test_what_would_lose_its_meaning_is_refused_as_the_api_does(row: Refusal) -> None:
    model, context, options, said, refused_by = row
    assert said in (_asked(model, context, **options).refusal or "")
    assert _asked(model, context, rules=False, **options).refused_by == refused_by


@pytest.mark.parametrize(
    ("model", "context", "options"),
    [
        ("gemini-2.5-pro", PREFILL, {}),
        ("gemini-3.5-flash", PREFILL, {}),
        ("gemini-2.5-pro", TOOLS, {"response_format": "json", "tool_choice": "none"}),
        ("gemini-3.5-flash", TOOLS, {"response_format": SCHEMA}),
        ("gemini-3.5-flash", Context([HI], tools=[Tool("9 tides/at the pier")]), {}),
    ],
)
def test_what_a_model_takes_is_sent(model: str, context: Context, options: dict[str, Any]) -> None:
    found = _asked(model, context, **options)
    assert (found.refusal, found.refused_by) == (None, [])


TOOL = Tool("look", "", SCHEMA)
CHOICES: list[tuple[str | None, dict[str, Any] | None]] = [
    (None, None),
    ("auto", {"mode": "AUTO"}),
    ("none", {"mode": "NONE"}),
    ("required", {"mode": "ANY"}),
    ("look", {"mode": "ANY", "allowedFunctionNames": ["look"]}),
]


def _body(context: Context, **options: Any) -> dict[str, Any]:
    return _asked("any", context, **options).body


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


DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


@pytest.mark.parametrize(
    ("model", "taken"),
    [("gemini-4-hydrogen", True), ("gemini-4-carbon", True), ("gemini-3.8-flash", False)],
)
def test_documents_of_office_programs_go_to_models_that_read_them(model: str, taken: bool) -> None:
    letter = DocumentBlock(Base64Source(DOCX, "AAAA"), "letter.docx")
    found = leaving(PROVIDER, f"gemini/{model}", Context([UserMessage([letter])]))
    assert found.refused_by == []
    if taken:
        [part] = found.body["contents"][0]["parts"]
        assert part == {"inlineData": {"mimeType": DOCX, "data": "AAAA"}}
    else:
        assert f"not {DOCX}" in str(found.refusal)

"""Options as fields of the request, by model, with omitted and changed values."""

from __future__ import annotations

import json
from typing import Any

import pytest
from converse_model import misfits

from swink_core import (
    AssistantMessage,
    Base64Source,
    CacheStrategy,
    Context,
    DocumentBlock,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_provider_bedrock import BedrockProvider
from swink_test_helpers.outgoing import Leaving, leaving

PROVIDER = BedrockProvider("bedrock")

NEWEST = "us.anthropic.claude-opus-5-5"
NEWER = "us.anthropic.claude-opus-5"
FOUR_SIX = "us.anthropic.claude-sonnet-4-6"
OLD = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
NOVA_2 = "us.amazon.nova-2-lite-v1:0"
NOVA = "us.amazon.nova-pro-v1:0"
GPT = "global.openai.gpt-6.1-sol"
GPT_OSS = "openai.gpt-oss-120b-1:0"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"
MISTRAL = "mistral.mistral-large-3-675b-instruct"
HI = UserMessage("Hi")
LOOK = Tool("look")


def _asked(model: str, tools: bool = False, **options: Any) -> Leaving:
    context = Context([HI], tools=[LOOK, Tool("wait")] if tools else [])
    found = leaving(PROVIDER, f"bedrock/{model}", context, **options)
    if found.refusal is None and options.get("rules", True):
        assert misfits(found.body) == []
    return found


def _fields(found: Leaving) -> dict[str, Any]:
    """The request's body without the conversation."""
    other = ("messages", "toolConfig")
    return {name: value for name, value in found.body.items() if name not in other}


def _more(**fields: Any) -> dict[str, Any]:
    return {"additionalModelRequestFields": fields}


def _inference(**fields: Any) -> dict[str, Any]:
    return {"inferenceConfig": fields}


def _adaptive(effort: str) -> dict[str, Any]:
    thinking = {"type": "adaptive", "display": "summarized"}
    return {"outputConfig": {"effort": effort}, **_more(thinking=thinking)}


def _budget(tokens: int, most: int) -> dict[str, Any]:
    thinking = {"type": "enabled", "budget_tokens": tokens}
    return {**_inference(maxTokens=most), **_more(thinking=thinking)}


def _nova(effort: str) -> dict[str, Any]:
    return _more(reasoningConfig={"type": "enabled", "maxReasoningEffort": effort})


# (name, model, options, fields)
ROWS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("nothing", LLAMA, {}, {}),
    (
        "tuning",
        LLAMA,
        {"max_tokens": 9, "temperature": 0.2, "top_p": 0.9, "stop": ["A", "B"]},
        _inference(maxTokens=9, stopSequences=["A", "B"], temperature=0.2, topP=0.9),
    ),
    ("zero", LLAMA, {"temperature": 0}, _inference(temperature=0)),
    ("Claude's top_k", OLD, {"top_k": 5}, _more(top_k=5)),
    ("Nova's top_k", NOVA, {"top_k": 5}, _more(inferenceConfig={"topK": 5})),
    ("top_p alone", OLD, {"top_p": 0.9}, _inference(topP=0.9)),
    ("an effort", NEWER, {"thinking": "medium"}, _adaptive("medium")),
    ("the highest", NEWEST, {"thinking": "extra_high"}, _adaptive("xhigh")),
    ("the highest of 4.6", FOUR_SIX, {"thinking": "extra_high"}, _adaptive("max")),
    ("an unknown Claude's", "us.anthropic.claude-opus-9", {"thinking": "high"}, _adaptive("high")),
    ("a level", OLD, {"thinking": "low"}, _budget(2048, 64_000)),
    ("a budget", OLD, {"thinking": 3000, "max_tokens": 9000}, _budget(3000, 9000)),
    (
        "an older Claude of another region",
        "apac.anthropic.claude-sonnet-4-20250514-v1:0",
        {"thinking": 3000},
        _budget(3000, 64_000),
    ),
    ("off", OLD, {"thinking": "off"}, _more(thinking={"type": "disabled"})),
    ("off where it is on", NEWER, {"thinking": 0}, _more(thinking={"type": "disabled"})),
    (
        "Nova",
        NOVA_2,
        {"thinking": "low", "max_tokens": 9},
        {**_nova("low"), **_inference(maxTokens=9)},
    ),
    ("Nova, off", NOVA_2, {"thinking": "off"}, _more(reasoningConfig={"type": "disabled"})),
    ("GPT", GPT, {"thinking": "extra_high"}, _more(reasoning={"effort": "xhigh"})),
    ("GPT of open weights", GPT_OSS, {"thinking": "low"}, _more(reasoning_effort="low")),
    ("Kimi", "global.moonshotai.kimi-k3", {"thinking": "high"}, _more(reasoning_effort="high")),
    ("what does not think, off", LLAMA, {"thinking": "off"}, {}),
    ("a cache", NEWER, {"cache": "auto"}, {}),
]


@pytest.mark.parametrize(
    ("name", "model", "options", "expected"), ROWS, ids=[row[0] for row in ROWS]
)
def test_fields(name: str, model: str, options: dict[str, Any], expected: dict[str, Any]) -> None:
    found = _asked(model, **options)
    assert _fields(found) == expected
    assert (found.notices, found.refused_by) == ([], [])


def _gone(*names: str) -> list[str]:
    return [f"does not support {name}; it was not sent" for name in names]


Change = tuple[str, dict[str, Any], dict[str, Any], list[str], list[str]]

# (model, options, fields, what is said, the judge's rules without ours)
CHANGES: list[Change] = [
    (OLD, {"temperature": 0.2, "top_p": 0.9}, _inference(temperature=0.2),
     _gone("top_p"), ["bedrock-claude-temperature-top-p"]),
    (NEWEST, {"temperature": 0.2}, {},
     ["does not support this value of temperature; it was not sent"],
     ["bedrock-claude-temperature"]),
    (FOUR_SIX, {"thinking": "low", "temperature": 0.2}, _adaptive("low"),
     ["does not support this value of temperature; it was not sent"],
     ["bedrock-claude-thinking-temperature"]),
    (NEWEST, {"thinking": "off"}, _adaptive("low"),
     ["thinking was changed from off to low"], ["bedrock-claude-always-on"]),
    (NEWER, {"thinking": 9000}, _adaptive("high"),
     ["thinking was changed from 9000 to high"], ["bedrock-claude-thinking-enabled"]),
    (OLD, {"thinking": 5}, _budget(1024, 64_000),
     ["thinking was changed from 5 to 1024"], ["bedrock-claude-budget"]),
    (OLD, {"thinking": 9000, "max_tokens": 5000}, _budget(3976, 5000),
     ["thinking was changed from 9000 to 3976"], []),
    (OLD, {"thinking": "low", "max_tokens": 1024}, _inference(maxTokens=1024),
     _gone("thinking"), []),
    (OLD, {"thinking": "low", "tool_choice": "required"}, {},
     _gone("thinking"), ["bedrock-claude-thinking-forced-any"]),
    (LLAMA, {"temperature": 1.5, "top_p": 2}, _inference(temperature=1, topP=1),
     ["temperature was changed from 1.5 to 1", "top_p was changed from 2 to 1"],
     ["bedrock-temperature-high", "bedrock-topp-high"]),
    (NOVA_2,
     {"thinking": "extra_high", "max_tokens": 9, "temperature": 0.2, "top_p": 0.9, "top_k": 3},
     _nova("high"),
     ["thinking was changed from extra_high to high",
      *_gone("max_tokens", "temperature", "top_p", "top_k")], []),
    (NOVA_2, {"thinking": "high", "max_tokens": 9}, _nova("high"),
     _gone("max_tokens"), ["bedrock-nova2-high-max-tokens"]),
    (GPT_OSS, {"thinking": "off"}, _more(reasoning_effort="low"),
     ["thinking was changed from off to low"], []),
    # how these are asked is not known
    (LLAMA, {"thinking": "low", "top_k": 5}, {}, _gone("thinking", "top_k"), []),
    (LLAMA, {"cache": "auto"}, {}, _gone("cache"),
     ["bedrock-cache-point-messages", "bedrock-cache-point-tools"]),
    (NOVA, {"cache": CacheStrategy(ttl=3600)}, {},
     ["cache: the model does not support a ttl; it was not sent"], []),
    (MISTRAL, {"tool_choice": "look"}, {},
     ["tool_choice: only the chosen tool was sent"], ["bedrock-mistral-forced-tool"]),
    (NEWEST, {"tool_choice": "none"}, {},
     ["tool_choice: calls cannot be forbidden, so no tools are sent"], []),
]  # fmt: skip


@pytest.mark.parametrize("row", CHANGES)
def test_what_is_left_out_or_changed_is_said_and_is_what_the_api_refuses(row: Change) -> None:
    model, options, expected, said, refused_by = row
    found = _asked(model, tools=True, **options)
    assert _fields(found) == expected
    assert sorted(found.notices) == sorted(said)
    assert found.refused_by == []
    as_given = _asked(model, tools=True, rules=False, **options)
    assert sorted(as_given.refused_by) == sorted(refused_by)


def test_cache_points_of_the_callers_are_left_out_where_the_model_takes_none() -> None:
    point = {"cachePoint": {"type": "default"}}
    context = Context([UserMessage([TextBlock("Hi", point)])])
    asked = (PROVIDER, f"bedrock/{LLAMA}", context)
    found = leaving(*asked)
    assert found.body["messages"] == [{"role": "user", "content": [{"text": "Hi"}]}]
    assert found.notices == ["does not support cache points; they were not sent"]
    assert leaving(*asked, rules=False).refused_by == ["bedrock-cache-point-messages"]


@pytest.mark.parametrize(
    ("points", "ttl", "said"), [(3, None, 0), (4, None, 1), (1, 3600, 1), (0, 3600, 0)]
)
def test_that_own_cache_points_leave_a_strategy_no_place_is_said(
    points: int, ttl: int | None, said: int
) -> None:
    point = {"cachePoint": {"type": "default"}}
    blocks = [*(TextBlock("Hi", point) for _ in range(points)), TextBlock("Go.")]
    context = Context([UserMessage([*blocks])])
    cache = CacheStrategy("auto", ttl)
    found = leaving(PROVIDER, f"bedrock/{NEWEST}", context, cache=cache)
    assert ["maximum number of cache marks" in each for each in found.notices] == [True] * said
    assert ("cachePoint" in found.body["messages"][0]["content"][-1]) is not bool(said)


def test_a_signature_does_not_go_to_a_model_that_refuses_it() -> None:
    thought = ThinkingBlock("Hm.", "c2lnbmF0dXJl")
    answer = AssistantMessage([thought, TextBlock("a")], provider="bedrock")
    context = Context([HI, answer, UserMessage("And?")])
    found = leaving(PROVIDER, f"bedrock/{GPT_OSS}", context)
    assert found.body["messages"][1]["content"] == [{"text": "a"}]
    assert found.refused_by == []
    signed = leaving(PROVIDER, f"bedrock/{NEWER}", context).body["messages"][1]["content"]
    assert signed[0]["reasoningContent"]["reasoningText"]["signature"] == "c2lnbmF0dXJl"


def test_limits_of_a_strict_tool_are_told_in_words_to_claude_alone() -> None:
    limited = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    context = Context([HI], tools=[Tool("look", "", limited, True)])
    found = leaving(PROVIDER, f"bedrock/{NEWER}", context)
    assert found.notices == ["minimum of the schema of look moved into descriptions"]
    assert found.refused_by == []
    assert leaving(PROVIDER, f"bedrock/{NOVA}", context).notices == []


SAID = AssistantMessage([TextBlock("It is")])
CALLED = AssistantMessage([ToolCallBlock("call_1", "look", {})])

PAGES = [DocumentBlock(Base64Source("application/pdf", "JVBERi0="), f"page {n}") for n in range(6)]
TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["children"],
    "additionalProperties": False,
}

Refusal = tuple[str, Context, dict[str, Any], str, list[str]]

# (model, conversation, options, what is said, the judge's rules without ours)
REFUSED: list[Refusal] = [
    (NEWEST, Context([HI], tools=[LOOK]), {"tool_choice": "look"},
     "does not support tool choice", ["bedrock-claude-forced-tool"]),
    (LLAMA, Context([HI], tools=[LOOK]), {"tool_choice": "required"},
     "does not support tool choice", ["bedrock-llama-forced-any"]),
    (FOUR_SIX, Context([HI, SAID]), {}, "does not support prefill", ["bedrock-claude-prefill"]),
    (NOVA, Context([SAID, HI]), {}, "begin with an assistant message", ["bedrock-first-user"]),
    ("acme.unheard-of-v1:0", Context([SAID, HI]), {}, "begin with an assistant message",
     ["bedrock-first-user"]),
    (NEWEST, Context([HI]), {"stop": ["A", "\n"]}, "only white space",
     ["bedrock-claude-stop-blank"]),
    (NEWEST, Context([HI]), {"response_format": TREE}, "refers to itself",
     ["bedrock-claude-format-recursive"]),
    (NOVA, Context([UserMessage([TextBlock("Hi"), *PAGES])]), {}, "at most 5 documents, not 6",
     ["bedrock-documents-count"]),
    (NOVA, Context([UserMessage(" ")]), {}, "ends with a blank user message",
     ["bedrock-no-messages"]),
    ("mistral.mistral-7b-instruct-v0:2", Context([HI], "Be brief."), {},
     "does not support system prompts", ["bedrock-system-unsupported"]),
    ("us.deepseek.r1-v1:0", Context([HI, CALLED, ToolResultMessage("call_1", "look", "seen")]), {},
     "the conversation contains tool calls", ["bedrock-r1-tools"]),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED)
def test_what_would_lose_its_meaning_is_refused_as_the_api_does(row: Refusal) -> None:
    model, context, options, said, refused_by = row
    asked = (PROVIDER, f"bedrock/{model}", context)
    assert said in (leaving(*asked, **options).refusal or "")
    assert leaving(*asked, rules=False, **options).refused_by == refused_by


ANY, AUTO = {"any": {}}, {"auto": {}}


@pytest.mark.parametrize(
    ("model", "choice", "tools", "expected"),
    [
        (NEWER, None, ["look", "wait"], None),
        (NEWER, "auto", ["look", "wait"], AUTO),
        (NEWER, "required", ["look", "wait"], ANY),
        (NEWER, "look", ["look", "wait"], {"tool": {"name": "look"}}),
        (MISTRAL, "required", ["look", "wait"], ANY),
        (MISTRAL, "look", ["look"], ANY),
        (LLAMA, "auto", ["look", "wait"], AUTO),
        (GPT_OSS, "required", ["look", "wait"], ANY),
        (GPT_OSS, "look", ["look", "wait"], {"tool": {"name": "look"}}),
    ],
)
def test_a_choice_of_tools_is_made_as_the_model_knows_it(
    model: str, choice: str | None, tools: list[str], expected: Any
) -> None:
    config = _asked(model, tools=True, tool_choice=choice).body["toolConfig"]
    assert [tool["toolSpec"]["name"] for tool in config["tools"]] == tools
    assert config.get("toolChoice") == expected


def test_a_schema_is_sent_as_text_and_closed() -> None:
    schema = {"type": "object", "properties": {"ключ": {"type": "string"}}}
    output = _asked(NEWER, response_format=schema, thinking="low").body["outputConfig"]
    assert output["effort"] == "low"
    form = output["textFormat"]
    text = form["structure"]["jsonSchema"].pop("schema")
    assert form == {"type": "json_schema", "structure": {"jsonSchema": {}}}
    assert json.loads(text) == {**schema, "additionalProperties": False}
    assert "ключ" in text


@pytest.mark.parametrize(("model", "in_words"), [(NEWER, True), (GPT, False)])
def test_limits_that_claude_refuses_are_told_in_words(model: str, in_words: bool) -> None:
    found = _asked(model, response_format={"type": "string", "maxLength": 9})
    form = found.body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]
    assert ("maxLength" in json.loads(form["schema"])) is not in_words
    assert len(found.notices) == in_words

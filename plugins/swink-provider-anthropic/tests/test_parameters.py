"""Options as fields of the request, and what models make of them, by the rules of models.toml."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    CacheStrategy,
    Context,
    SystemMessage,
    TextBlock,
    Tool,
    UserMessage,
)
from swink_provider_anthropic import AnthropicProvider
from swink_test_helpers.outgoing import Leaving, leaving

PROVIDER = AnthropicProvider("anthropic")

BUDGET = "claude-sonnet-4-5"
FOUR_SIX = "claude-opus-4-6"
NEWER = "claude-opus-5"
NEWEST = "claude-opus-5-5"
OTHER = "model-of-another"
"""Of no Claude, at an address that speaks the same API."""


def _asked(model: str, tools: bool = False, **options: Any) -> Leaving:
    context = Context([UserMessage("Hi")], tools=[Tool("look")] if tools else [])
    return leaving(PROVIDER, f"anthropic/{model}", context, **options)


def _fields(found: Leaving) -> dict[str, Any]:
    """The request's body without the conversation."""
    other = ("messages", "tools", "model", "stream")
    return {name: value for name, value in found.body.items() if name not in other}


def _enabled(budget: int) -> dict[str, Any]:
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _adaptive(effort: str) -> dict[str, Any]:
    return {
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": effort},
    }


OPEN = {
    "type": "object",
    "properties": {
        "list": {"type": "array", "items": {"type": "object", "properties": {}}},
        "none": {"type": ["object", "null"]},
    },
}
CLOSED = {
    "type": "object",
    "properties": {
        "list": {
            "type": "array",
            "items": {"type": "object", "properties": {}, "additionalProperties": False},
        },
        "none": {"type": ["object", "null"], "additionalProperties": False},
    },
    "additionalProperties": False,
}

# (name, model, options, fields beside max_tokens, max_tokens)
FIELDS: list[tuple[str, str, dict[str, Any], dict[str, Any], int]] = [
    ("nothing", BUDGET, {}, {}, 64_000),
    ("nothing, of a newer model", NEWEST, {}, {}, 128_000),
    ("nothing, of an unknown Claude", "claude-opus-7", {}, {}, 128_000),
    ("nothing, of no Claude", OTHER, {}, {}, 4096),
    (
        "tuning",
        BUDGET,
        {"max_tokens": 9, "temperature": 0.2, "stop": ["A", "B"], "session_id": "s"},
        {"temperature": 0.2, "stop_sequences": ["A", "B"], "metadata": {"user_id": "s"}},
        9,
    ),
    ("top_k", BUDGET, {"top_k": 0}, {"top_k": 0}, 64_000),
    ("who asks", BUDGET, {"user": "u"}, {"metadata": {"user_id": "u"}}, 64_000),
    ("top_p alone", BUDGET, {"top_p": 0.3}, {"top_p": 0.3}, 64_000),
    ("a thinking level", BUDGET, {"thinking": "high"}, _enabled(10_000), 64_000),
    ("a budget", BUDGET, {"thinking": 3000}, _enabled(3000), 64_000),
    ("a budget, of no Claude", OTHER, {"thinking": "high"}, _enabled(10_000), 14_096),
    ("an old Claude's", "claude-opus-4-1", {"thinking": 2000}, _enabled(2000), 32_000),
    ("a dated Claude's", "claude-opus-4-5-20251101", {"thinking": 2000}, _enabled(2000), 64_000),
    ("a dated newer Claude's", "claude-opus-5-5-20260901", {"thinking": "low"},
     _adaptive("low"), 128_000),
    ("thinking off", BUDGET, {"thinking": "off"}, {"thinking": {"type": "disabled"}}, 64_000),
    ("thinking off where it is on", NEWER, {"thinking": "off"}, {"thinking": {"type": "disabled"}},
     128_000),
    ("thinking off in another word", "claude-sonnet-5-5", {"thinking": "off"},
     {"thinking": {"type": "between_tools"}}, 128_000),
    (
        "thinking and the sampling that goes with it",
        BUDGET,
        {"thinking": 3000, "top_p": 0.97},
        {**_enabled(3000), "top_p": 0.97},
        64_000,
    ),
    ("an effort", NEWER, {"thinking": "medium"}, _adaptive("medium"), 128_000),
    ("the highest effort", NEWER, {"thinking": "extra_high"}, _adaptive("xhigh"), 128_000),
    ("the highest of 4.6", FOUR_SIX, {"thinking": "extra_high"}, _adaptive("max"), 128_000),
    ("an unknown Claude's", "claude-opus-7", {"thinking": "high"}, _adaptive("high"), 128_000),
    (
        "a schema, closed as the API wants it",
        BUDGET,
        {"response_format": OPEN},
        {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}},
        64_000,
    ),
    (
        "a schema and an effort",
        NEWER,
        {"thinking": "low", "response_format": {"type": "string"}},
        {
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {
                "effort": "low",
                "format": {"type": "json_schema", "schema": {"type": "string"}},
            },
        },
        128_000,
    ),
    (
        "fields of the API's own, over which options win",
        BUDGET,
        {"max_tokens": 9, "extra": {"max_tokens": 8, "top_k": 5, "service_tier": "auto"}},
        {"top_k": 5, "service_tier": "auto"},
        9,
    ),
    ("a limit of the API's own", BUDGET, {"extra": {"max_tokens": 2000}}, {}, 2000),
    ("a limit of 0, which only warms the cache", BUDGET, {"extra": {"max_tokens": 0}}, {}, 0),
    ("a limit of null", BUDGET, {"extra": {"max_tokens": None}}, {}, 64_000),
    (
        "fields of objects that options make too",
        NEWER,
        {
            "thinking": "low",
            "extra": {
                "thinking": {"type": "enabled", "block_binding": {}},
                "output_config": {"task_budget": 1},
            },
        },
        {
            "thinking": {"type": "adaptive", "display": "summarized", "block_binding": {}},
            "output_config": {"effort": "low", "task_budget": 1},
        },
        128_000,
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "model", "options", "expected", "limit"),
    FIELDS,
    ids=[name.replace(" ", "-") for name, *_ in FIELDS],
)
def test_fields(
    name: str, model: str, options: dict[str, Any], expected: dict[str, Any], limit: int
) -> None:
    found = _asked(model, **options)
    assert _fields(found) == {"max_tokens": limit, **expected}
    assert found.notices == []
    assert {*found.refused_by} <= {"anthropic-model-retired"}  # which other clouds still serve


LITTLE = {"thinking": "low", "max_tokens": 1024}

Change = tuple[str, dict[str, Any], dict[str, Any], list[str], list[str]]

# (model, options, fields beside max_tokens, what is said, the judge's rules without ours)
CHANGES: list[Change] = [
    (BUDGET, {"thinking": 3000, "temperature": 0.2}, _enabled(3000),
     ["does not support this value of temperature; it was not sent"],
     ["anthropic-thinking-temperature"]),
    (FOUR_SIX, {"thinking": "low", "temperature": 0.2}, _adaptive("low"),
     ["does not support this value of temperature; it was not sent"],
     ["anthropic-thinking-temperature"]),
    # what the API says of top_p and top_k with thinking is no rule of the judge's:
    # https://platform.claude.com/docs/en/build-with-claude/extended-thinking
    (BUDGET, {"thinking": 3000, "top_p": 0.5}, {**_enabled(3000), "top_p": 0.95},
     ["top_p was changed from 0.5 to 0.95"], []),
    (BUDGET, {"thinking": 3000, "top_k": 5}, _enabled(3000),
     ["does not support top_k; it was not sent"], []),
    (BUDGET, {"temperature": 0.2, "top_p": 0.5}, {"temperature": 0.2},
     ["does not support top_p; it was not sent"], ["anthropic-temperature-and-top-p"]),
    (BUDGET, {"temperature": 1.7}, {"temperature": 1},
     ["temperature was changed from 1.7 to 1"], ["anthropic-temperature-range-high"]),
    (BUDGET, {"thinking": "low", "tool_choice": "required"}, {"tool_choice": {"type": "any"}},
     ["does not support thinking; it was not sent"], ["anthropic-thinking-forced-tool"]),
    (BUDGET, {"thinking": 5}, _enabled(1024),
     ["thinking was changed from 5 to 1024"], ["anthropic-budget-minimum"]),
    (BUDGET, {"thinking": 900_000}, _enabled(62_976), ["thinking was changed from 900000 to 62976"],
     []),
    (BUDGET, {"max_tokens": 70_000}, {"max_tokens": 64_000},
     ["max_tokens was changed from 70000 to 64000"], ["anthropic-max-tokens-64k"]),
    (BUDGET, {"thinking": 3000, "max_tokens": 2500}, {"max_tokens": 2500, **_enabled(1476)},
     ["thinking was changed from 3000 to 1476"], []),
    (BUDGET, LITTLE, {"max_tokens": 1024}, ["does not support thinking; it was not sent"], []),
    (NEWER, {"thinking": 4000}, _adaptive("medium"),
     ["thinking was changed from 4000 to medium"], ["anthropic-thinking-enabled-removed"]),
    (NEWER, {"thinking": "minimal"}, _adaptive("low"),
     ["thinking was changed from minimal to low"], ["anthropic-effort-value"]),
    (NEWER, {"temperature": 0.3, "top_p": 0.5, "top_k": 3}, {},
     [f"does not support this value of {name}; it was not sent"
     for name in ("temperature", "top_p", "top_k")],
     [f"anthropic-{name}-deprecated" for name in ("temperature", "top-p", "top-k")]),
    (NEWEST, {"thinking": "off"}, _adaptive("low"),
     ["thinking was changed from off to low"], ["anthropic-thinking-always-on"]),
    ("claude-haiku-5-5", {"top_p": 1.0}, {},
     ["does not support this value of top_p; it was not sent"], ["anthropic-haiku55-top-p"]),
    ("claude-opus-5-5-20260901", {"temperature": 0.2}, {},
     ["does not support this value of temperature; it was not sent"],
     ["anthropic-temperature-deprecated"]),
    (BUDGET, {"user": "u", "session_id": "s"}, {"metadata": {"user_id": "u"}},
     ["session_id: not sent, because the API has one field for it and user"], []),
    (BUDGET, {"seed": 7}, {}, ["does not support seed; it was not sent"], []),
    (FOUR_SIX, {"thinking": 9000, "tool_choice": "required"}, {"tool_choice": {"type": "any"}},
     ["does not support thinking; it was not sent"], ["anthropic-thinking-forced-tool"]),
    # together they get along
    (FOUR_SIX, {"thinking": 9000}, {"thinking": {"type": "enabled", "budget_tokens": 9000}},
     [], []),
    (FOUR_SIX, {"thinking": "low", "tool_choice": "required"},
     {**_adaptive("low"), "tool_choice": {"type": "any"}}, [], []),
]  # fmt: skip


@pytest.mark.parametrize("row", CHANGES)
def test_what_is_left_out_or_changed_is_said_and_is_what_the_api_refuses(row: Change) -> None:
    model, options, expected, said, refused_by = row
    found = _asked(model, tools=True, **options)
    limit = 64_000 if model == BUDGET else 128_000
    assert _fields(found) == {"max_tokens": limit, **expected}
    assert sorted(found.notices) == sorted(said)
    assert found.refused_by == []
    as_given = _asked(model, tools=True, rules=False, **options)
    assert sorted(as_given.refused_by) == sorted(refused_by)


HI = UserMessage("Hi")
SAID = AssistantMessage([TextBlock("It is")])


def test_white_space_at_the_end_of_an_answer_to_be_continued_is_left_out_and_said() -> None:
    cited = TextBlock("One, \n", {"citations": []})
    for end, sent, notices in [
        (
            TextBlock("One, \n"),
            "One,",
            ["messages[1].content[0].text: trailing white space was not sent"],
        ),
        (cited, "One, \n", []),
    ]:
        found = leaving(PROVIDER, f"anthropic/{BUDGET}", Context([HI, AssistantMessage([end])]))
        assert found.body["messages"][-1]["content"][0]["text"] == sent
        assert found.notices == notices


AGES = {"type": "object", "additionalProperties": {"type": "integer"}}
AGES_WITHIN = {"type": "object", "properties": {"ages": {**AGES, "type": ["object", "null"]}}}

CLOSED = {"type": "object", "additionalProperties": False}

TREE = {
    "type": "object",
    "properties": {"children": {"type": "array", "items": {"$ref": "#"}}},
    "required": ["children"],
    "additionalProperties": False,
}

Refusal = tuple[str, Context, dict[str, Any], str, list[str]]

# (model, conversation, options, what is said, the judge's rules without ours)
REFUSED: list[Refusal] = [
    (NEWEST, Context([HI], tools=[Tool("look")]), {"tool_choice": "look"},
     "does not support tool choice", ["anthropic-forced-tool-unsupported"]),
    ("claude-fable-5-1", Context([HI], tools=[Tool("look")]), {"tool_choice": "required"},
     "does not support tool choice", ["anthropic-forced-tool-unsupported"]),
    (FOUR_SIX, Context([HI, SAID]), {},
     "does not support prefill", ["anthropic-prefill-text-block"]),
    (BUDGET, Context([HI]), {"stop": ["A", "\n"]},
     "only white space", ["anthropic-stop-sequence-blank"]),
    (BUDGET, Context([UserMessage("\n")]), {}, "ends with a blank user message",
     ["anthropic-no-messages"]),
    (NEWEST, Context([HI, SAID, UserMessage(" ")]), {}, "ends with a blank user message",
     ["anthropic-prefill-text-block"]),
    (NEWEST, Context([HI]), {"response_format": TREE}, "refers to itself",
     ["anthropic-format-recursive"]),
    (BUDGET, Context([HI], tools=[Tool("look", "", {"type": "array"})]), {},
     "whose parameters are not an object", ["anthropic-tool-schema-type"]),
    (NEWEST, Context([HI]), {"response_format": AGES},
     "open objects", ["anthropic-format-additional-properties", "anthropic-format-open"]),
    (NEWEST, Context([HI]), {"response_format": {"type": "array", "items": AGES_WITHIN}},
     "open objects", ["anthropic-format-open"]),
    (NEWEST, Context([HI]), {"response_format": {**CLOSED, "properties": {"a": {"title": "A"}}}},
     "permit any value", ["anthropic-format-any"]),
    (NEWEST, Context([HI]),
     {"response_format": {**CLOSED, "properties": {"a": {"type": "array", "items": {}}}}},
     "permit any value", ["anthropic-format-any"]),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED)
def test_what_would_lose_its_meaning_is_refused_as_the_api_does(row: Refusal) -> None:
    model, context, options, said, refused_by = row
    asked = (PROVIDER, f"anthropic/{model}", context)
    assert said in (leaving(*asked, **options).refusal or "")
    as_given = leaving(*asked, rules=False, **options)
    assert as_given.refusal is None
    assert as_given.refused_by == refused_by


def test_an_answer_to_be_continued_goes_to_models_that_do() -> None:
    found = leaving(PROVIDER, f"anthropic/{BUDGET}", Context([HI, SAID]))
    assert found.body["messages"][-1]["role"] == "assistant"


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
    assert _fields(_asked(BUDGET, tools=True, **options)).get("tool_choice") == choice


LIMITED = {
    "type": "object",
    "properties": {
        "minimum": {"type": "integer", "minimum": 1, "maximum": 9, "description": "A number"},
        "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"$ref": "#/$defs/text"}},
        "word": {"enum": [{"minLength": 1}]},
        "pair": {
            "type": "array",
            "prefixItems": [{"type": "null"}, {"type": "string"}],
            "items": False,
        },
        "oneOf": {"oneOf": [{"type": "null"}], "discriminator": {"propertyName": "kind"}},
    },
    "$defs": {"text": {"type": "string", "minLength": 2}},
}
TOLD = {
    "type": "object",
    "properties": {
        "minimum": {"type": "integer", "description": "A number\n\n{minimum: 1; maximum: 9}"},
        "list": {
            "type": "array",
            "minItems": 1,
            "items": {"$ref": "#/$defs/text"},
            "description": "{maxItems: 3}",
        },
        "word": {"enum": [{"minLength": 1}]},
        "pair": {
            "type": "array",
            "items": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "description": '{prefixItems: ["null", "string"]; maxItems: 2}',
        },
        "oneOf": {"anyOf": [{"type": "null"}]},
    },
    "$defs": {"text": {"type": "string", "description": "{minLength: 2}"}},
    "additionalProperties": False,
}


def test_limits_that_the_api_refuses_are_told_in_words() -> None:
    found = _asked(BUDGET, response_format=LIMITED)
    assert found.body["output_config"]["format"]["schema"] == TOLD
    assert found.notices == [
        "response_format: maxItems, maximum, minLength, minimum, prefixItems moved into "
        "descriptions"
    ]
    as_given = _asked(BUDGET, response_format=LIMITED, rules=False)
    schema = as_given.body["output_config"]["format"]["schema"]
    assert schema["properties"] == LIMITED["properties"]
    assert as_given.notices == []


def test_nested_tuples_do_not_multiply_a_schema() -> None:
    nested: dict[str, Any] = {"type": "string"}
    for _ in range(50):
        parts = [{"type": "null"}, nested]
        nested = {"type": "array", "prefixItems": parts, "items": False}
    wanted = {**CLOSED, "properties": {"a": nested}}

    found = _asked(BUDGET, response_format=wanted)

    schema = found.body["output_config"]["format"]["schema"]
    assert len(json.dumps(schema)) < 4 * len(json.dumps(wanted))


FREE = {"type": "object", "properties": {}, "additionalProperties": False}


def _fields_of(number: int, schema: Any) -> dict[str, Any]:
    named = {f"field_{n}": schema for n in range(number)}
    return {"type": "object", "properties": named}


ROUND = {**FREE, "properties": {"next": {"$ref": "#/$defs/a"}}, "required": ["next"],
         "$defs": {"a": {"type": "object", "properties": {"next": {"$ref": "#/$defs/a"}},
                         "required": ["next"]}}}  # fmt: skip
WORDS = {"type": "string"}
EITHER = _fields_of(16, {"type": ["string", "null"]})
EITHER["required"] = [*EITHER["properties"]]

# (schemas of strict tools, which stay strict)
STRICT: list[tuple[str, list[Any], str]] = [
    ("twenty", [FREE] * 21, "x" * 20 + "-"),
    ("optional fields", [_fields_of(24, WORDS), _fields_of(1, WORDS), FREE], "x-x"),
    ("too many at once", [_fields_of(25, WORDS), _fields_of(24, WORDS)], "-x"),
    ("fields of several types", [EITHER, EITHER, FREE], "x-x"),
    ("a circle", [ROUND, FREE], "-x"),
    ("open objects", [{**FREE, "additionalProperties": True}, FREE], "-x"),
    ("any value", [_fields_of(1, {"description": "x"}), FREE], "-x"),
    ("a list without items", [_fields_of(1, {"type": "array"}), FREE], "-x"),
    ("a pattern that looks around",
     [{**_fields_of(1, {**WORDS, "pattern": "^(?!no)"})}, FREE], "-x"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "schemas", "strict"), STRICT, ids=[row[0] for row in STRICT])
def test_tools_are_strict_as_far_as_the_api_compiles_them(
    name: str, schemas: list[Any], strict: str
) -> None:
    tools = [Tool(f"t{n}", "", schema, True) for n, schema in enumerate(schemas)]
    found = leaving(PROVIDER, f"anthropic/{NEWER}", Context([HI], tools=tools))
    sent = "".join("x" if "strict" in tool else "-" for tool in found.body["tools"])
    assert sent == strict
    assert found.notices == [
        f"strict was not sent for t{n}, whose schema exceeds the limits of strict mode"
        for n, mark in enumerate(strict)
        if mark == "-"
    ]
    assert found.refused_by == []


def test_limits_of_a_strict_tool_are_told_in_words() -> None:
    context = Context([HI], tools=[Tool("look", "", LIMITED, True), Tool("see", "", LIMITED)])
    found = leaving(PROVIDER, f"anthropic/{BUDGET}", context)
    assert [tool["input_schema"] for tool in found.body["tools"]] == [TOLD, LIMITED]
    names = "maxItems, maximum, minLength, minimum, prefixItems"
    assert found.notices == [f"{names} of the schema of look moved into descriptions"]
    as_given = leaving(PROVIDER, f"anthropic/{BUDGET}", context, rules=False)
    more = ("limits", "oneof", "discriminator", "prefix-items")
    assert as_given.refused_by == [f"anthropic-strict-{name}" for name in more]


def test_a_choice_without_tools_is_left_out_since_the_api_refuses_it() -> None:
    assert "tool_choice" not in _asked(BUDGET, tool_choice="none").body


SEARCH = {"type": "web_search_20260209", "name": "web_search"}


def test_the_servers_own_tools_come_after_the_conversations() -> None:
    found = _asked(BUDGET, tools=True, extra={"tools": [SEARCH]})
    assert [tool["name"] for tool in found.body["tools"]] == ["look", "web_search"]


def test_a_choice_among_the_servers_own_tools_is_sent() -> None:
    found = _asked(BUDGET, tool_choice="web_search", extra={"tools": [SEARCH]})
    assert found.body["tool_choice"] == {"type": "tool", "name": "web_search"}


# -- instructions inside the conversation ------------------------------------------------------

FIRST, THEN = SystemMessage("Be brief."), SystemMessage("Be kind.")
ANSWER = AssistantMessage([TextBlock("Yes.")])

# (messages, what is in `messages`: the first letter of each role and its texts)
PLACES: list[tuple[list[Any], list[str]]] = [
    ([HI, FIRST], ["u Hi", "s Be brief."]),
    ([HI, FIRST, ANSWER, HI], ["u Hi", "s Be brief.", "a Yes.", "u Hi"]),
    ([HI, FIRST, HI], ["u Hi Hi", "s Be brief."]),
    ([HI, FIRST, THEN], ["u Hi", "s Be brief. Be kind."]),
    ([HI, ANSWER, FIRST, HI], ["u Hi", "a Yes.", "u Hi", "s Be brief."]),
    ([HI, ANSWER, FIRST], ["u Hi", "a Yes.", "u <system>\nBe brief.\n</system>"]),
    ([FIRST, HI, THEN], ["u Hi", "s Be kind."]),
]


def _heard(model: str, *messages: Any) -> tuple[Leaving, list[str]]:
    found = leaving(PROVIDER, f"anthropic/{model}", Context([*messages]))
    turns = found.body["messages"]
    texts = [" ".join(block["text"] for block in turn["content"]) for turn in turns]
    return found, [f"{t['role'][0]} {text}" for t, text in zip(turns, texts, strict=True)]


@pytest.mark.parametrize(("messages", "expected"), PLACES)
@pytest.mark.parametrize("model", ["claude-opus-4-8", NEWER, NEWEST, "claude-opus-7"])
def test_an_instruction_inside_stands_where_the_api_takes_it(
    model: str, messages: list[Any], expected: list[str]
) -> None:
    found, heard = _heard(model, *messages)
    assert heard == expected
    assert found.refused_by == []


MOVED = "a system message was moved behind the user message"


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([HI, FIRST], []),
        ([HI, FIRST, THEN], []),
        ([FIRST, HI, THEN, ANSWER, HI], []),
        ([HI, FIRST, HI], [MOVED]),
        ([HI, ANSWER, FIRST], [MOVED]),
        ([HI, ANSWER, FIRST, HI], [MOVED]),
        ([HI, ANSWER, HI, FIRST, THEN, HI], [MOVED]),
    ],
)
def test_that_an_instruction_is_moved_is_said(messages: list[Any], said: list[str]) -> None:
    found, _ = _heard(NEWEST, *messages)
    assert found.notices == said


@pytest.mark.parametrize(
    "model", [BUDGET, FOUR_SIX, "claude-opus-4-7", "claude-sonnet-5", "claude-opus-4-1", OTHER]
)
def test_an_instruction_inside_is_a_marked_user_turn_elsewhere(model: str) -> None:
    found, heard = _heard(model, HI, FIRST)
    assert heard == ["u Hi <system>\nBe brief.\n</system>"]
    assert len(found.notices) == 1


# -- marks for the cache ------------------------------------------------------------------------

SHORT = {"cache_control": {"type": "ephemeral"}}
LONG = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
CROWDED = ["the conversation has the maximum number of cache marks, so none was added at the end"]


@pytest.mark.parametrize(
    ("own", "ttl", "said"),
    [
        ([SHORT] * 3 + [None], None, []),
        ([SHORT] * 4 + [None], None, CROWDED),
        ([SHORT] * 4, None, []),
        ([SHORT, None], 3600, CROWDED),
        ([LONG, None], 3600, []),
        ([None, SHORT], 3600, []),
    ],
)
def test_that_own_marks_leave_a_strategy_no_place_is_said(
    own: list[Any], ttl: int | None, said: list[str]
) -> None:
    context = Context([UserMessage([TextBlock("Hi", mark) for mark in own])])
    cache = CacheStrategy("auto", ttl)
    found = leaving(PROVIDER, f"anthropic/{NEWEST}", context, cache=cache)
    assert found.notices == said
    last = found.body["messages"][-1]["content"][-1]
    assert ("cache_control" in last) is (said == [])


# -- names of tools ----------------------------------------------------------------------------


def test_names_that_the_api_refuses_are_others_there() -> None:
    context = Context([HI], tools=[Tool("tide.at/the pier")])
    found = leaving(PROVIDER, f"anthropic/{BUDGET}", context, tool_choice="tide.at/the pier")
    [tool] = found.body["tools"]
    assert found.body["tool_choice"] == {"type": "tool", "name": tool["name"]}
    assert found.refused_by == []

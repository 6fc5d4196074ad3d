"""Conversations as Converse gets them, and AWS's own opinion on each."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import pytest
from converse_model import misfits

from swink_core import (
    AssistantMessage,
    Base64Source,
    Block,
    CacheStrategy,
    Context,
    DocumentBlock,
    ExtensionBlock,
    Host,
    Message,
    ProviderFailure,
    StopReason,
    StreamErrorKind,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
)
from swink_core.providers import Catalog
from swink_provider_bedrock import BedrockProvider
from swink_test_helpers.outgoing import leaving

PROVIDER = BedrockProvider("bedrock")
CATALOG = Catalog(Host(environ={}), environ={})
CLAUDE = "us.anthropic.claude-sonnet-4-6"
NOVA = "us.amazon.nova-pro-v1:0"
LLAMA = "us.meta.llama3-3-70b-instruct-v1:0"

SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}}
LOOK = Tool("look", "Looks.", SCHEMA)
LOOK_SPEC = {"toolSpec": {"name": "look", "description": "Looks.", "inputSchema": {"json": SCHEMA}}}
HI = UserMessage("Hi")
CITATION = {"title": "a", "location": {"documentChar": {"documentIndex": 0}}}


def _converted(context: Context, model: str = CLAUDE, **options: Any) -> dict[str, Any]:
    before = copy.deepcopy(context)
    known = CATALOG.resolve(f"bedrock/{model}")
    native: dict[str, Any] = PROVIDER.convert_messages(known, context, StreamOptions(**options))
    assert context == before
    assert misfits(native) == []
    return native


def _answered(*content: Block, model: str | None = None, **more: Any) -> list[Any]:
    """How the content of an answer goes back, after a question."""
    answer = AssistantMessage(list(content), "bedrock", model, **more)
    messages = _converted(Context([HI, answer]))["messages"]
    return messages[1]["content"] if len(messages) > 1 else []


def _user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def _called(id: str = "t1", **more: Any) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": "look", "input": {}, **more}}


# -- turns -----------------------------------------------------------------------------------

TURNS: list[tuple[str, Context, list[dict[str, Any]]]] = [
    ("a question", Context([HI]), [_user({"text": "Hi"})]),
    (
        "two in a row",
        Context([HI, UserMessage([TextBlock("there"), TextBlock("you")])]),
        [_user({"text": "Hi"}, {"text": "there"}, {"text": "you"})],
    ),
    (
        "blank text, which the API refuses",
        Context([UserMessage(" "), UserMessage([TextBlock("\n"), TextBlock("a ")])]),
        [_user({"text": "a "})],
    ),
    (
        "a call and its results, in one turn with what the user says next",
        Context(
            [
                HI,
                AssistantMessage([ToolCallBlock("t1", "look"), ToolCallBlock("t2", "look")]),
                ToolResultMessage("t1", "look", "found"),
                ToolResultMessage("t2", "look", [TextBlock("lost")], is_error=True),
                UserMessage("Go on"),
            ],
            tools=[LOOK],
        ),
        [
            _user({"text": "Hi"}),
            {"role": "assistant", "content": [_called("t1"), _called("t2")]},
            _user(
                {"toolResult": {"toolUseId": "t1", "content": [{"text": "found"}]}},
                {
                    "toolResult": {
                        "toolUseId": "t2",
                        "content": [{"text": "lost"}],
                        "status": "error",
                    }
                },
                {"text": "Go on"},
            ),
        ],
    ),
    (
        "results of nothing",
        Context(
            [
                HI,
                AssistantMessage([ToolCallBlock("t1", "look"), ToolCallBlock("t2", "look")]),
                ToolResultMessage("t1", "look", ""),
                ToolResultMessage("t2", "look", " ", is_error=True),
            ],
            tools=[LOOK],
        ),
        [
            _user({"text": "Hi"}),
            {"role": "assistant", "content": [_called("t1"), _called("t2")]},
            _user(
                {"toolResult": {"toolUseId": "t1", "content": []}},
                {
                    "toolResult": {
                        "toolUseId": "t2",
                        "content": [{"text": "The tool failed and did not say why."}],
                        "status": "error",
                    }
                },
            ),
        ],
    ),
    (
        "an answer to be continued",
        Context([HI, AssistantMessage([TextBlock("I say \n")])]),
        [_user({"text": "Hi"}), {"role": "assistant", "content": [{"text": "I say"}]}],
    ),
]


@pytest.mark.parametrize(("name", "context", "expected"), TURNS, ids=[row[0] for row in TURNS])
def test_turns(name: str, context: Context, expected: list[dict[str, Any]]) -> None:
    assert _converted(context)["messages"] == expected


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("Be brief.", [{"text": "Be brief."}]), ("", None), (" \n", None), (None, None)],
)
def test_the_system_prompt_stands_beside(prompt: str | None, expected: Any) -> None:
    assert _converted(Context([HI], prompt)).get("system") == expected


FIRST, THEN = SystemMessage("Be brief."), SystemMessage("Be kind.")
ANSWER = AssistantMessage([TextBlock("Yes.")])

# (messages, what is in `messages`: the first letter of each role and its texts)
PLACES: list[tuple[list[Message], list[str]]] = [
    ([HI, FIRST], ["u Hi", "s Be brief."]),
    ([HI, FIRST, HI], ["u Hi Hi", "s Be brief."]),
    ([HI, ANSWER, FIRST], ["u Hi", "a Yes.", "u <system>\nBe brief.\n</system>"]),
    ([FIRST, HI, THEN], ["u Hi", "s Be kind."]),
]


def _heard(context: Context, model: str) -> list[str]:
    turns = _converted(context, model)["messages"]
    texts = [" ".join(block["text"] for block in turn["content"]) for turn in turns]
    return [f"{turn['role'][0]} {text}" for turn, text in zip(turns, texts, strict=True)]


@pytest.mark.parametrize(("messages", "expected"), PLACES)
@pytest.mark.parametrize(
    "model", ["us.anthropic.claude-opus-4-8", "global.anthropic.claude-sonnet-5-5"]
)
def test_an_instruction_inside_has_a_role_of_its_own_where_the_model_takes_it(
    model: str, messages: list[Message], expected: list[str]
) -> None:
    assert _heard(Context(messages), model) == expected
    found = leaving(PROVIDER, f"bedrock/{model}", Context(messages))
    moved = ["a system message was moved behind the user message"] if len(messages) == 3 else []
    assert found.notices == (moved if messages[0] is HI else [])
    assert found.refused_by == []


@pytest.mark.parametrize("model", [CLAUDE, NOVA, LLAMA])
def test_an_instruction_inside_is_a_marked_user_turn_elsewhere(model: str) -> None:
    assert _heard(Context([HI, FIRST]), model) == ["u Hi <system>\nBe brief.\n</system>"]
    assert len(leaving(PROVIDER, f"bedrock/{model}", Context([HI, FIRST])).notices) == 1


FOUND = {
    "source": "https://a.example", "title": "A", "content": [{"text": "found"}],
    "citations": {"enabled": True},
}  # fmt: skip
GUARDED = {"text": {"text": "Hi", "qualifiers": ["query"]}}
ADDED = {"tool": {"type": "toolReference", "name": "look"}}


@pytest.mark.parametrize(
    ("kind", "data"),
    [("searchResult", FOUND), ("guardContent", GUARDED), ("toolAddition", ADDED)],
)
def test_what_swink_has_no_word_for_goes_out_as_it_is(kind: str, data: dict[str, Any]) -> None:
    block = ExtensionBlock("bedrock", kind, {kind: data})
    context = Context([UserMessage([TextBlock("Look"), block])])
    assert _converted(context)["messages"] == [_user({"text": "Look"}, {kind: data})]


def test_a_tool_may_return_search_results() -> None:
    found = ExtensionBlock("bedrock", "searchResult", {"searchResult": FOUND})
    call = AssistantMessage([ToolCallBlock("t1", "look")])
    context = Context([HI, call, ToolResultMessage("t1", "look", [found])], tools=[LOOK])
    result = _converted(context)["messages"][-1]["content"][0]["toolResult"]
    assert result["content"] == [{"searchResult": FOUND}]


# -- what the model said ---------------------------------------------------------------------

NATIVE_USE = {"toolUse": {"toolUseId": "s", "name": "code", "type": "server_tool_use", "input": {}}}
NATIVE_RESULT = {"toolResult": {"toolUseId": "s", "type": "code_result", "content": []}}

ANSWERS: list[tuple[str, Block, list[Any]]] = [
    ("text", TextBlock("a"), [{"text": "a"}]),
    ("blank text", TextBlock(" "), []),
    (
        "text with citations",
        TextBlock("a", {"citations": [CITATION]}),
        [{"citationsContent": {"content": [{"text": "a"}], "citations": [CITATION]}}],
    ),
    (
        "signed reasoning",
        ThinkingBlock("Hm", "c2ln"),
        [{"reasoningContent": {"reasoningText": {"text": "Hm", "signature": "c2ln"}}}],
    ),
    (
        "signed reasoning that is not shown",
        ThinkingBlock("", "c2ln"),
        [{"reasoningContent": {"reasoningText": {"text": "", "signature": "c2ln"}}}],
    ),
    ("unsigned reasoning", ThinkingBlock("Hm"), []),
    (
        "redacted reasoning",
        ThinkingBlock("", "aGlkZGVu", redacted=True),
        [{"reasoningContent": {"redactedContent": "aGlkZGVu"}}],
    ),
    ("a call", ToolCallBlock("t1", "look", {"a": 1}), [_called(input={"a": 1})]),
    (
        "arguments that are not JSON",
        ToolCallBlock("t1", "look", {}, "{a: 1}", "invalid"),
        [_called(input={"INVALID_JSON": "{a: 1}"})],
    ),
    (
        "arguments that were cut",
        ToolCallBlock("t1", "look", {}, '{"a', "truncated"),
        [_called(input={"INVALID_JSON": '{"a'})],
    ),
    ("the server's call without its result", ExtensionBlock("bedrock", "toolUse", NATIVE_USE), []),
    (
        "an image, which only the user may send",
        ExtensionBlock("bedrock", "image", {"image": {"format": "png"}}),
        [],
    ),
    ("another provider's extension", ExtensionBlock("elsewhere", "x", {"x": 1}), []),
]


@pytest.mark.parametrize(("name", "block", "expected"), ANSWERS, ids=[row[0] for row in ANSWERS])
def test_answers_go_back_as_they_came(name: str, block: Block, expected: list[Any]) -> None:
    assert _answered(block, model=CLAUDE) == expected


def test_a_tool_of_the_servers_goes_back_with_its_result() -> None:
    use = ExtensionBlock("bedrock", "toolUse", NATIVE_USE)
    result = ExtensionBlock("bedrock", "toolResult", NATIVE_RESULT)
    assert _answered(use, result, model=CLAUDE) == [NATIVE_USE, NATIVE_RESULT]


def test_a_tool_of_the_servers_needs_no_stub() -> None:
    use = ExtensionBlock("bedrock", "toolUse", NATIVE_USE)
    result = ExtensionBlock("bedrock", "toolResult", NATIVE_RESULT)
    assert "toolConfig" not in _converted(Context([HI, AssistantMessage([use, result]), HI]))


@pytest.mark.parametrize(
    ("author", "kept"),
    [
        (CLAUDE, True),
        ("arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-opus-4-6-v1", True),
        ("arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", True),
        (None, True),
        (NOVA, False),
        ("openai.gpt-oss-120b-1:0", False),
    ],
)
def test_reasoning_goes_back_only_to_its_vendor(author: str | None, kept: bool) -> None:
    content = _answered(ThinkingBlock("Hm", "c2ln"), TextBlock("a"), model=author)
    assert ("reasoningContent" in content[0]) is kept
    assert content[-1] == {"text": "a"}


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("tooluse_a-b.c:d", "tooluse_a-b.c:d"),
        ("a" * 64, "a" * 64),
        ("call|1", "call_1_"),
        ("call/1", "call_1_"),
        ("a" * 65, "a" * 40 + "_"),
        ("ключ", "_____"),
    ],
)
def test_tool_ids_are_made_to_fit(id: str, expected: str) -> None:
    [call] = _answered(ToolCallBlock(id, "look"))
    found = call["toolUse"]["toolUseId"]
    assert found.startswith(expected)
    assert len(found) == len(expected) + (12 if expected.endswith("_") else 0)


def test_ids_that_look_alike_stay_apart() -> None:
    ids = [_answered(ToolCallBlock(id, "look"))[0] for id in ("a|b", "a/b", "a_b")]
    assert len({call["toolUse"]["toolUseId"] for call in ids}) == 3


# -- tools -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (None, {"tools": [LOOK_SPEC]}),
        ("auto", {"tools": [LOOK_SPEC], "toolChoice": {"auto": {}}}),
        ("required", {"tools": [LOOK_SPEC], "toolChoice": {"any": {}}}),
        ("look", {"tools": [LOOK_SPEC], "toolChoice": {"tool": {"name": "look"}}}),
        ("none", None),
    ],
)
def test_tool_choice(choice: str | None, expected: Any) -> None:
    native = _converted(Context([HI], tools=[LOOK]), tool_choice=choice)
    assert native.get("toolConfig") == expected


def test_a_tool_needs_no_description_and_no_type() -> None:
    native = _converted(Context([HI], tools=[Tool("look", "", {"properties": {}})]))
    schema = {"type": "object", "properties": {}}
    expected = {"toolSpec": {"name": "look", "inputSchema": {"json": schema}}}
    assert native["toolConfig"]["tools"] == [expected]


CALLED = [
    HI,
    AssistantMessage([ToolCallBlock("t1", "look"), ToolCallBlock("t2", "look")]),
    ToolResultMessage("t1", "look", "found"),
    ToolResultMessage("t2", "look", "found"),
]


def test_a_conversation_with_calls_is_sent_with_stubs_of_its_tools() -> None:
    stub = {"name": "look", "inputSchema": {"json": {"type": "object", "properties": {}}}}
    native = _converted(Context(CALLED), tool_choice="auto")
    assert native["toolConfig"] == {"tools": [{"toolSpec": stub}]}


def test_calls_cannot_be_forbidden_where_there_were_some() -> None:
    with pytest.raises(ProviderFailure, match="cannot forbid") as caught:
        _converted(Context(CALLED, tools=[LOOK]), tool_choice="none")
    assert caught.value.failure.kind is StreamErrorKind.UNSUPPORTED


# -- caching ---------------------------------------------------------------------------------

POINT = {"cachePoint": {"type": "default"}}
TALK = Context(
    [HI, AssistantMessage([TextBlock("Hello")], stop_reason=StopReason.STOP), UserMessage("So?")],
    "Be brief.",
    [LOOK],
)


@pytest.mark.parametrize(
    ("model", "cache", "tools", "system", "user"),
    [
        (CLAUDE, None, [], [], []),
        (CLAUDE, CacheStrategy("none"), [], [], []),
        (CLAUDE, CacheStrategy(), [POINT], [POINT], [POINT]),
        (NOVA, CacheStrategy(), [], [POINT], [POINT]),
        (NOVA, CacheStrategy(ttl=3600), [], [POINT], [POINT]),
        (LLAMA, CacheStrategy(), [], [], []),
    ],
)
def test_cache_points_stand_where_the_model_takes_them(
    model: str, cache: CacheStrategy | None, tools: Any, system: Any, user: Any
) -> None:
    native = _converted(TALK, model, cache=cache)
    assert native["toolConfig"]["tools"] == [LOOK_SPEC, *tools]
    assert native["system"] == [{"text": "Be brief."}, *system]
    assert native["messages"][-1]["content"] == [{"text": "So?"}, *user]
    assert native["messages"][0]["content"] == [{"text": "Hi"}]


@pytest.mark.parametrize(("seconds", "ttl"), [(60, "5m"), (300, "5m"), (301, "1h"), (3600, "1h")])
def test_how_long_a_cache_is_kept(seconds: int, ttl: str) -> None:
    native = _converted(TALK, cache=CacheStrategy(ttl=seconds))
    assert native["system"][-1] == {"cachePoint": {"type": "default", "ttl": ttl}}


def _own(ttl: str | None = None) -> dict[str, Any]:
    return {"cachePoint": {"type": "default", **({"ttl": ttl} if ttl else {})}}


# (after which of the caller's words there is a point, how long it lives; the strategy; points
#  after tools, system prompt, and each of the words)
OWN_POINTS: list[tuple[str, str | None, CacheStrategy | None, str]] = [
    ("-*-", None, None, "---*-"),
    ("-*-", None, CacheStrategy(), "**-**"),
    ("**-", None, CacheStrategy(), "-****"),
    ("***", None, CacheStrategy(), "-****"),
    ("-*-", "1h", CacheStrategy(), "---*-"),
    ("-*-", "1h", CacheStrategy(ttl=3600), "**-**"),
]


@pytest.mark.parametrize(("own", "ttl", "cache", "points"), OWN_POINTS)
def test_the_callers_own_points_come_before_the_strategys(
    own: str, ttl: str | None, cache: CacheStrategy | None, points: str
) -> None:
    first, *others = [TextBlock("a", _own(ttl) if mark == "*" else None) for mark in own]
    answer = AssistantMessage([TextBlock("b")])
    context = Context([UserMessage([first]), answer, UserMessage([*others])], "Be.", [LOOK])
    native = _converted(context, cache=cache)
    said = [b for turn in native["messages"] if turn["role"] == "user" for b in turn["content"]]
    blocks = [*native["toolConfig"]["tools"], *native["system"], *said, {}]
    pairs = pairwise(blocks)
    marks = ["*" if "cachePoint" in after else "-" for at, after in pairs if "cachePoint" not in at]
    assert "".join(marks) == points


def test_a_point_in_a_result_comes_after_it() -> None:
    result = ToolResultMessage("t1", "look", [TextBlock("found", _own("1h"))])
    context = Context([HI, AssistantMessage([ToolCallBlock("t1", "look")]), result], tools=[LOOK])
    last = _converted(context)["messages"][-1]
    found = {"toolResult": {"toolUseId": "t1", "content": [{"text": "found"}]}}
    assert last == _user(found, _own("1h"))


def test_a_point_after_a_text_document_in_a_result_comes_after_the_result() -> None:
    document = DocumentBlock(Base64Source("text/plain", "SGk="), "a.txt", metadata=_own())
    result = ToolResultMessage("t1", "look", [document])
    context = Context([HI, AssistantMessage([ToolCallBlock("t1", "look")]), result], tools=[LOOK])
    last = _converted(context)["messages"][-1]
    assert [[*part] for part in last["content"]] == [["toolResult"], ["cachePoint"]]


@pytest.mark.parametrize(("model", "points"), [(CLAUDE, [POINT]), (LLAMA, [])])
def test_a_point_of_a_tool_comes_after_it(model: str, points: list[Any]) -> None:
    marked = Tool("look", "Looks.", SCHEMA, metadata={"bedrock": POINT})
    native = _converted(Context([HI], tools=[marked, LOOK]), model)
    assert native["toolConfig"]["tools"] == [LOOK_SPEC, *points, LOOK_SPEC]


def test_a_point_of_a_tool_counts_beside_a_strategy() -> None:
    marked = Tool("look", "Looks.", SCHEMA, metadata={"bedrock": POINT})
    said = UserMessage([TextBlock("a", _own()), TextBlock("b", _own()), TextBlock("c")])
    native = _converted(Context([said], "Be.", [marked]), cache=CacheStrategy())
    assert native["toolConfig"]["tools"] == [LOOK_SPEC, POINT]
    assert native["system"] == [{"text": "Be."}]
    assert native["messages"][0]["content"][-1] == POINT


# -- what single vendors want ----------------------------------------------------------------

ANSWERED_AND_ON = Context([*CALLED, UserMessage("Go on")], tools=[LOOK])
RESULTS = [{"toolResult": {"toolUseId": id, "content": [{"text": "found"}]}} for id in ("t1", "t2")]


@pytest.mark.parametrize(
    ("model", "last"),
    [
        (CLAUDE, [_user(*RESULTS, {"text": "Go on"})]),
        (NOVA, [_user(*RESULTS, {"text": "Go on"})]),
        (LLAMA, [_user(*RESULTS), _user({"text": "Go on"})]),
        ("mistral.mistral-large-2407-v1:0", [_user(*RESULTS), _user({"text": "Go on"})]),
    ],
)
def test_results_of_tools_stand_alone_where_the_model_wants_it(model: str, last: Any) -> None:
    assert _converted(ANSWERED_AND_ON, model)["messages"][2:] == last


REFERRING = {
    "type": "object",
    "properties": {"at": {"$ref": "#/$defs/place", "description": "Where."}},
    "$defs": {"place": {"type": "object", "properties": {}}},
}
PLACE = {"type": "object", "properties": {}, "description": "Where."}
CLOSED = {"additionalProperties": False}


@pytest.mark.parametrize(
    ("model", "strict", "expected"),
    [
        (CLAUDE, None, REFERRING),
        (NOVA, None, {"type": "object", "properties": {"at": PLACE}}),
        (NOVA, True, {"type": "object", "properties": {"at": {**PLACE, **CLOSED}}, **CLOSED}),
    ],
)
def test_schemas_of_tools(model: str, strict: bool | None, expected: dict[str, Any]) -> None:
    native = _converted(Context([HI], tools=[Tool("look", "", REFERRING, strict)]), model)
    assert native["toolConfig"]["tools"][0]["toolSpec"]["inputSchema"]["json"] == expected

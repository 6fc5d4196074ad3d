"""Conversations as the Messages API gets them."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    CacheStrategy,
    Context,
    ExtensionBlock,
    ImageBlock,
    Message,
    Model,
    StopReason,
    StreamOptions,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_provider_anthropic import AnthropicProvider

PROVIDER = AnthropicProvider("anthropic")
MODEL = Model("anthropic", "any")


def _converted(context: Context, **options: Any) -> dict[str, Any]:
    return PROVIDER.convert(MODEL, context, StreamOptions(**options))


def _messages(*messages: Message) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = _converted(Context(list(messages)))["messages"]
    return turns


def _said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _user(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(content)}


def _model(*content: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


HI = UserMessage("Hi")
PNG = base64.b64encode(b"\x89PNG").decode()
PDF = base64.b64encode(b"%PDF").decode()
CALL = ToolCallBlock("t1", "look", {"at": 1}, '{"at": 1}')
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": [_said("ok")]}
SERVER_USE = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": "x"}}
SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"é": 1.5}]}
CITED = {"type": "char_location", "cited_text": "x", "document_index": 0, "document_title": None}


def _answer(*content: Any, **more: Any) -> AssistantMessage:
    return AssistantMessage(list(content), provider="anthropic", **more)


def _extension(data: dict[str, Any]) -> ExtensionBlock:
    return ExtensionBlock("anthropic", data["type"], data)


TURNS: list[tuple[str, list[Message], list[dict[str, Any]]]] = [
    ("a string", [HI], [_user(_said("Hi"))]),
    (
        "users who speak twice speak once",
        [HI, UserMessage("there")],
        [_user(_said("Hi"), _said("there"))],
    ),
    (
        "empty text among other text",
        [UserMessage([TextBlock(""), TextBlock("Hi")])],
        [_user(_said("Hi"))],
    ),
    (
        "white space beside other text",
        [HI, _answer(TextBlock("\n\n"), TextBlock("a")), HI],
        [_user(_said("Hi")), _model(_said("\n\n"), _said("a")), _user(_said("Hi"))],
    ),
    (
        "white space without other text",
        [HI, _answer(TextBlock("\n\n"), CALL), ToolResultMessage("t1", "look", " ")],
        [_user(_said("Hi")), _model(USE), _user({"type": "tool_result", "tool_use_id": "t1"})],
    ),
    (
        "a user who says nothing",
        [HI, _answer(TextBlock("a")), UserMessage([TextBlock(" ")]), HI],
        [_user(_said("Hi")), _model(_said("a")), _user(_said("Hi"))],
    ),
    (
        "thinking is sent back unchanged",
        [
            HI,
            _answer(
                ThinkingBlock("hm ", "c2ln"),
                ThinkingBlock("", "ZW5j", redacted=True),
                ThinkingBlock("", "b21pdA=="),
                CALL,
            ),
            ToolResultMessage("t1", "look", "ok"),
        ],
        [
            _user(_said("Hi")),
            _model(
                {"type": "thinking", "thinking": "hm ", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "ZW5j"},
                {"type": "thinking", "thinking": "", "signature": "b21pdA=="},
                USE,
            ),
            _user(RESULT),
        ],
    ),
    (
        "thinking without a signature is refused, and stays here",
        [HI, _answer(ThinkingBlock("hm"), TextBlock("a")), HI],
        [_user(_said("Hi")), _model(_said("a")), _user(_said("Hi"))],
    ),
    (
        "an answer of which nothing is left",
        [HI, _answer(ThinkingBlock("hm"), TextBlock("\n")), HI],
        [_user(_said("Hi"), _said("Hi"))],
    ),
    (
        "another provider's signatures and extensions stay here",
        [
            HI,
            AssistantMessage(
                [
                    ThinkingBlock("hm", "x"),
                    TextBlock("a", {"citations": [CITED]}),
                    ExtensionBlock("acme", "search", {"type": "search"}),
                ],
                provider="acme",
            ),
            HI,
        ],
        [_user(_said("Hi")), _model(_said("a")), _user(_said("Hi"))],
    ),
    (
        "citations, without the one field that the API refuses",
        [HI, _answer(TextBlock("a", {"citations": [{**CITED, "file_id": None}]})), HI],
        [
            _user(_said("Hi")),
            _model({"type": "text", "text": "a", "citations": [CITED]}),
            _user(_said("Hi")),
        ],
    ),
    (
        "server-side tools, in their place",
        [
            HI,
            _answer(
                TextBlock("a"), _extension(SERVER_USE), _extension(SERVER_RESULT), TextBlock("b")
            ),
            HI,
        ],
        [
            _user(_said("Hi")),
            _model(_said("a"), SERVER_USE, SERVER_RESULT, _said("b")),
            _user(_said("Hi")),
        ],
    ),
    (
        "a pause is sent back to go on",
        [HI, _answer(TextBlock("a"), _extension(SERVER_USE), stop_reason=StopReason.PAUSE)],
        [_user(_said("Hi")), _model(_said("a"), SERVER_USE)],
    ),
    (
        "a server's tool that never answered, in an answer that was cut",
        [
            HI,
            _answer(
                _extension({**SERVER_USE, "id": "s0"}),
                _extension(SERVER_USE),
                _extension(SERVER_RESULT),
                TextBlock("a"),
                stop_reason=StopReason.ERROR,
            ),
            HI,
        ],
        [_user(_said("Hi")), _model(SERVER_USE, SERVER_RESULT, _said("a")), _user(_said("Hi"))],
    ),
    (
        "a server's tool with half an input",
        [HI, _answer(_extension({**SERVER_USE, "input": '{"q'}), TextBlock("a")), HI],
        [_user(_said("Hi")), _model(_said("a")), _user(_said("Hi"))],
    ),
    (
        "results come together and before what the user adds",
        [
            HI,
            _answer(CALL, ToolCallBlock("t2", "look")),
            ToolResultMessage("t1", "look", "ok"),
            ToolResultMessage("t2", "look", [TextBlock("no"), TextBlock("")], is_error=True),
            UserMessage("And?"),
        ],
        [
            _user(_said("Hi")),
            _model(USE, {"type": "tool_use", "id": "t2", "name": "look", "input": {}}),
            _user(
                RESULT,
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [_said("no")],
                    "is_error": True,
                },
                _said("And?"),
            ),
        ],
    ),
    (
        "a result without content, and one with an image",
        [
            HI,
            _answer(CALL, ToolCallBlock("t2", "look")),
            ToolResultMessage("t1", "look", ""),
            ToolResultMessage("t2", "look", [ImageBlock(UrlSource("https://example.com/a.png"))]),
        ],
        [
            _user(_said("Hi")),
            _model(USE, {"type": "tool_use", "id": "t2", "name": "look", "input": {}}),
            _user(
                {"type": "tool_result", "tool_use_id": "t1"},
                {
                    "type": "tool_result",
                    "tool_use_id": "t2",
                    "content": [
                        {
                            "type": "image",
                            "source": {"type": "url", "url": "https://example.com/a.png"},
                        }
                    ],
                },
            ),
        ],
    ),
    (
        "arguments that did not parse travel inside an object",
        [
            HI,
            _answer(ToolCallBlock("t1", "look", {}, '{"at": ', "truncated")),
            ToolResultMessage("t1", "look", "ok"),
        ],
        [
            _user(_said("Hi")),
            _model({**USE, "input": {"INVALID_JSON": '{"at": '}}),
            _user(RESULT),
        ],
    ),
    (
        "a call by a server-side tool is sent back as one",
        [
            HI,
            _answer(ToolCallBlock("t1", "look", {"at": 1}, metadata={"caller": {"type": "x"}})),
            ToolResultMessage("t1", "look", "ok"),
        ],
        [_user(_said("Hi")), _model({**USE, "caller": {"type": "x"}}), _user(RESULT)],
    ),
]


@pytest.mark.parametrize(
    ("name", "messages", "turns"), TURNS, ids=[name.replace(" ", "-") for name, *_ in TURNS]
)
def test_turns(name: str, messages: list[Message], turns: list[dict[str, Any]]) -> None:
    assert _messages(*messages) == turns


@pytest.mark.parametrize(
    "id", ["call|1:a", "café", "", "a b", "a.b", "x" * 30 + "/" + "y" * 90], ids=repr
)
def test_ids_of_other_providers_are_mapped_the_same_way_each_time(id: str) -> None:
    answer = AssistantMessage([ToolCallBlock(id, "look")], provider="acme")
    first = _messages(HI, answer, ToolResultMessage(id, "look", "ok"))
    again = _messages(HI, answer, ToolResultMessage(id, "look", "ok"))
    assert first == again
    mapped = first[1]["content"][0]["id"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", mapped)
    assert first[2]["content"][0]["tool_use_id"] == mapped


def test_ids_that_differ_stay_different() -> None:
    ids = ["a.b", "a:b", "a_b", "a b"]
    turns = _messages(HI, AssistantMessage([ToolCallBlock(id, "look") for id in ids]))
    assert len({block["id"] for block in turns[1]["content"]}) == len(ids)


def test_system_prompt_and_tools() -> None:
    schema = {"type": "object", "properties": {"at": {"type": "integer"}}}
    context = Context(
        [HI], "Be brief.", [Tool("look", "Looks.", schema), Tool("wait", parameters={})]
    )
    assert _converted(context) == {
        "model": "any",
        "stream": True,
        "max_tokens": 4096,
        "messages": [_user(_said("Hi"))],
        "system": [_said("Be brief.")],
        "tools": [
            {"name": "look", "description": "Looks.", "input_schema": schema},
            {"name": "wait", "input_schema": {"type": "object"}},
        ],
    }


CONTAINER = ExtensionBlock("anthropic", "container", {"id": "container_1"})


@pytest.mark.parametrize(
    ("name", "messages", "container"),
    [
        ("no answer", [HI], None),
        ("none named", [HI, _answer(CALL)], None),
        ("the last answer's", [HI, _answer(CALL, CONTAINER)], "container_1"),
        ("an earlier answer's", [HI, _answer(CALL, CONTAINER), HI, _answer(CALL)], None),
    ],
)
def test_a_container_is_named_where_the_server_waits_in_it(
    name: str, messages: list[Message], container: str | None
) -> None:
    native = _converted(Context(messages))
    assert native.get("container") == container
    blocks = [block for turn in native["messages"] for block in turn["content"]]
    assert {block["type"] for block in blocks} <= {"text", "tool_use", "tool_result"}


@pytest.mark.parametrize(
    ("cache", "control"),
    [
        (None, None),
        ("none", None),
        ("auto", {"type": "ephemeral"}),
        (CacheStrategy(ttl=60), {"type": "ephemeral", "ttl": "5m"}),
        (CacheStrategy(ttl=300), {"type": "ephemeral", "ttl": "5m"}),
        (CacheStrategy(ttl=3600), {"type": "ephemeral", "ttl": "1h"}),
    ],
)
def test_marks_for_the_cache_are_on_system_last_tool_and_last_user_turn(
    cache: Any, control: dict[str, str] | None
) -> None:
    context = Context(
        [HI, _answer(CALL), ToolResultMessage("t1", "look", "ok"), UserMessage("And?")],
        "Be brief.",
        [Tool("look"), Tool("wait")],
    )
    native = _converted(context, cache=cache)
    blocks = [block for turn in native["messages"] for block in turn["content"]]
    places = [*native["system"], *native["tools"], *blocks]
    marks = [block.get("cache_control") for block in places]
    assert marks == [control, None, control, None, None, None, control]


def _kept(ttl: str | None) -> dict[str, Any]:
    return {"cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}}


# (the caller's marks: of the tool, of the words in the conversation; the strategy's lifetime;
#  all marks: of the tool, of the system prompt, of the words)
OWN_MARKS: list[tuple[str | None, list[str | None], int | None, list[str | None]]] = [
    (None, ["", "", ""], None, ["5m", "5m", "", "", "5m"]),
    (None, ["5m", "", ""], None, ["5m", "5m", "5m", "", "5m"]),
    (None, ["5m", "5m", ""], None, ["", "5m", "5m", "5m", "5m"]),
    (None, ["5m", "5m", "5m"], None, ["", "5m", "5m", "5m", "5m"]),
    (None, ["1h", "", ""], None, ["", "", "1h", "", "5m"]),
    (None, ["", "", "1h"], None, ["", "", "", "", "1h"]),
    (None, ["5m", "", ""], 3600, ["1h", "1h", "5m", "", ""]),
    ("5m", ["", "", ""], 3600, ["5m", "", "", "", ""]),
    ("1h", ["", "", ""], None, ["1h", "5m", "", "", "5m"]),
]


@pytest.mark.parametrize(("tool", "said", "ttl", "all_marks"), OWN_MARKS)
def test_the_callers_own_marks_come_before_the_strategys(
    tool: str | None, said: list[str | None], ttl: int | None, all_marks: list[str | None]
) -> None:
    """At most four, and none for an hour after one for five minutes."""
    texts = [TextBlock("a", _kept(own) if own else None) for own in said]
    look = Tool("look", metadata={"anthropic": _kept(tool)} if tool else None)
    first, *others = texts
    context = Context(
        [UserMessage([first]), _answer(TextBlock("b")), UserMessage([*others])], "Be.", [look]
    )
    native = _converted(context, cache=CacheStrategy(ttl=ttl))
    words = [b for turn in native["messages"] if turn["role"] == "user" for b in turn["content"]]
    marks = [b.get("cache_control") for b in (*native["tools"], *native["system"], *words)]
    assert [mark.get("ttl", "5m") if mark else "" for mark in marks] == all_marks


def test_a_mark_in_the_content_of_a_result_is_sent_on_the_result() -> None:
    mark = _kept("1h")
    result = ToolResultMessage("t1", "look", [TextBlock("ok", mark)])
    call = ToolCallBlock("t1", "look", {"at": 1}, metadata=mark)
    assert _messages(
        UserMessage([TextBlock("Hi", mark)]), _answer(TextBlock("a", mark), call), result
    ) == [
        _user({**_said("Hi"), **mark}),
        _model({**_said("a"), **mark}, {**USE, **mark}),
        _user({"type": "tool_result", "tool_use_id": "t1", "content": [_said("ok")], **mark}),
    ]


def test_the_schema_of_a_strict_tool_is_closed() -> None:
    inner = {"type": "object", "properties": {}}
    schema = {"type": "object", "properties": {"at": inner}}
    closed = {"additionalProperties": False}
    native = _converted(Context([HI], tools=[Tool("a", "", schema, True), Tool("b", "", schema)]))
    assert [tool["input_schema"] for tool in native["tools"]] == [
        {**schema, "properties": {"at": {**inner, **closed}}, **closed},
        schema,
    ]


def test_converting_changes_nothing_of_the_conversation() -> None:
    data = {**SERVER_USE, "input": {"q": "x"}}
    answer = _answer(_extension(data), _extension(SERVER_RESULT), TextBlock("a "))
    context = Context([HI, answer], "Be brief.", [Tool("look")])
    before = repr(context)
    _converted(context, cache="auto")
    assert repr(context) == before

"""Conversion of requests in Ollama's API to swink's conversations and options."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, given, settings

from swink_core import (
    AssistantMessage,
    Base64Source,
    Context,
    Host,
    ImageBlock,
    Model,
    StreamOptions,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UserMessage,
    replace,
)
from swink_core.providers.contexts import folded_system
from swink_gateway.protocols import Asked, BadRequest
from swink_gateway.protocols.ollama.protocol import OllamaGenerateProtocol, OllamaProtocol
from swink_test_helpers.strategies import contexts

HI = {"role": "user", "content": "Hi"}
FIRST, SECOND = "swink_call_ollama_1", "swink_call_ollama_2"
WEBP = "UklGRgAAAABXRUJQ"


def read(messages: Any = (HI,), **fields: Any) -> Asked:
    return OllamaProtocol().read({"model": "m", "messages": list(messages), **fields}, {}, {})


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments}, **more}


MESSAGES: list[tuple[str, list[Any], list[Any]]] = [
    (
        "roles and images",
        [
            {"role": "system", "content": "A"},
            {"role": "user", "content": "See", "images": ["iVBORw0KGgo=", "/9j/AAAA", WEBP]},
        ],
        [
            SystemMessage("A"),
            UserMessage(
                [
                    TextBlock("See"),
                    ImageBlock(Base64Source("image/png", "iVBORw0KGgo=")),
                    ImageBlock(Base64Source("image/jpeg", "/9j/AAAA")),
                    ImageBlock(Base64Source("image/webp", WEBP)),
                ]
            ),
        ],
    ),
    (
        "a tool loop without ids: one tool called twice, results with and without a name",
        [
            HI,
            {
                "role": "assistant",
                "thinking": "hm",
                "tool_calls": [call("f", {"a": 1}), call("g", {})],
            },
            {"role": "tool", "tool_name": "g", "content": "two"},
            {"role": "tool", "content": "one"},
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [
                    ThinkingBlock("hm"),
                    ToolCallBlock(FIRST, "f", {"a": 1}),
                    ToolCallBlock(SECOND, "g"),
                ]
            ),
            ToolResultMessage(SECOND, "g", "two"),
            ToolResultMessage(FIRST, "f", "one"),
        ],
    ),
    (
        "ids, and arguments as text",
        [
            {
                "role": "assistant",
                "tool_calls": [call("f", '{"a":1}', id="c1"), call("g", "{", id="c2")],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
        ],
        [
            AssistantMessage(
                [
                    ToolCallBlock("c1", "f", {"a": 1}),
                    ToolCallBlock("c2", "g", {}, "{", "invalid"),
                ]
            ),
            ToolResultMessage("c1", "f", "one"),
        ],
    ),
    (
        "a call without a result, and a later call of the same tool with a result",
        [
            HI,
            {"role": "assistant", "tool_calls": [call("f", {"a": 1})]},
            HI,
            {"role": "assistant", "tool_calls": [call("f", {"a": 2})]},
            {"role": "tool", "tool_name": "f", "content": "two"},
        ],
        [
            UserMessage("Hi"),
            AssistantMessage([ToolCallBlock(FIRST, "f", {"a": 1})]),
            UserMessage("Hi"),
            AssistantMessage([ToolCallBlock(SECOND, "f", {"a": 2})]),
            ToolResultMessage(SECOND, "f", "two"),
        ],
    ),
    (
        "calls of one turn in two messages, each with a result",
        [
            {"role": "assistant", "tool_calls": [call("f", {"a": 1})]},
            {"role": "assistant", "tool_calls": [call("f", {"a": 2})]},
            {"role": "tool", "content": "one"},
            {"role": "tool", "content": "two"},
        ],
        [
            AssistantMessage([ToolCallBlock(FIRST, "f", {"a": 1})]),
            AssistantMessage([ToolCallBlock(SECOND, "f", {"a": 2})]),
            ToolResultMessage(FIRST, "f", "one"),
            ToolResultMessage(SECOND, "f", "two"),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("messages", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES]
)
def test_messages(messages: list[Any], expected: list[Any]) -> None:
    asked = read(messages)
    assert asked.context.messages == expected
    assert asked.dropped == []


OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, {}),
    ({"options": {"temperature": 0, "top_k": 3}}, {"temperature": 0, "top_k": 3}),
    ({"options": {"num_predict": 7, "seed": 0}}, {"max_tokens": 7, "seed": 0}),
    ({"options": {"num_predict": -1}}, {}),
    ({"options": {"stop": ["."]}}, {"stop": (".",)}),
    ({"format": "json"}, {"response_format": "json"}),
    ({"format": ""}, {}),
    ({"format": {"type": "object"}}, {"response_format": {"type": "object"}}),
    ({"think": True}, {"thinking": "medium"}),
    ({"think": False}, {"thinking": "off"}),
    ({"think": "max"}, {"thinking": "extra_high"}),
]


@pytest.mark.parametrize(("fields", "expected"), OPTIONS)
def test_options(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    asked = read(**fields)
    assert (asked.options, asked.own, asked.dropped) == (expected, {}, [])


def test_an_answer_is_streamed_by_default() -> None:
    assert [read().stream, read(stream=True).stream, read(stream=False).stream] == [
        True,
        True,
        False,
    ]


def test_one_prompt() -> None:
    body = {"model": "m", "prompt": "Hi", "system": "S", "suffix": "x", "keep_alive": 0}
    asked = OllamaGenerateProtocol().read(body, {}, {})
    assert asked.context == Context([UserMessage("Hi")], "S")
    assert (asked.dropped, asked.own_places) == (["suffix"], ["keep_alive"])


def test_unknown_fields_go_only_to_another_ollama() -> None:
    asked = read(
        [{**HI, "mood": 1}], keep_alive="5m", options={"num_ctx": 4096}, think="enormous"
    )  # fmt: skip
    assert asked.own == {"keep_alive": "5m", "options": {"num_ctx": 4096}}
    assert asked.own_places == ["options.num_ctx", "keep_alive"]
    assert sorted(asked.dropped) == ["messages[0].mood", "think (enormous)"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": ""}, "model is missing"),
    ({"messages": [{"role": "king"}]}, "messages[0].role is 'king', an unknown role"),
    (
        {"messages": [{**HI, "images": ["/etc/passwd!"]}]},
        "messages[0].images[0] is not valid base64",
    ),
    ({"options": {"num_predict": "many"}}, "options.num_predict is a string"),
]


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_an_invalid_request_is_refused_with_the_path(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        OllamaProtocol().read({"model": "m", "messages": [HI], **fields}, {}, {})
    assert said in str(refused.value)


OLLAMA: Any = Host(environ={}).bind("ollama").provider
MODEL = Model("ollama", "any")


def converted(context: Context) -> Any:
    return OLLAMA.convert(MODEL, context, StreamOptions())


@settings(phases=[Phase.explicit, Phase.generate], max_examples=40)
@given(contexts(media=False))
def test_requests_of_swinks_own_provider_are_read_unchanged(context: Context) -> None:
    """After one conversion to Ollama's format, a conversation stays the same."""
    first = converted(context)
    asked = read(first["messages"], tools=first.get("tools", []))
    assert converted(folded_system(asked.context)) == first
    assert asked.context.tools == [
        replace(tool, metadata=None, strict=None) for tool in context.tools
    ] or any(tool.metadata for tool in context.tools)


def test_tools() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    function = {"name": "f", "description": "does", "parameters": schema}
    asked = read(tools=[{"type": "function", "function": function}])
    assert asked.context.tools == [Tool("f", "does", schema)]

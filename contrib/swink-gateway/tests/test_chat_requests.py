"""Conversion of Chat Completions requests to swink's conversations and options."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    DocumentBlock,
    FileIdSource,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    UserMessage,
)
from swink_gateway.protocols import Asked, BadRequest
from swink_gateway.protocols.chat.protocol import ChatProtocol

HI = {"role": "user", "content": "Hi"}


def read(messages: Any = (HI,), **fields: Any) -> Asked:
    return ChatProtocol().read({"model": "m", "messages": list(messages), **fields}, {}, {})


def call(id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


MESSAGES: list[tuple[str, list[Any], list[Any]]] = [
    ("a string", [HI], [UserMessage("Hi")]),
    (
        "instructions of both roles, anywhere",
        [
            {"role": "system", "content": "A"},
            HI,
            {"role": "developer", "content": [{"type": "text", "text": "B"}]},
        ],
        [SystemMessage("A"), UserMessage("Hi"), SystemMessage([TextBlock("B")])],
    ),
    (
        "parts of all kinds",
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See"},
                    {"type": "image_url", "image_url": {"url": "https://x/a.png", "detail": "low"}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
                    {
                        "type": "file",
                        "file": {
                            "filename": "a.pdf",
                            "file_data": "data:application/pdf;base64,AAAA",
                        },
                    },
                    {"type": "file", "file": {"file_id": "file-1"}},
                ],
            }
        ],
        [
            UserMessage(
                [
                    TextBlock("See"),
                    ImageBlock(UrlSource("https://x/a.png"), {"detail": "low"}),
                    ImageBlock(Base64Source("image/png", "AAAA")),
                    AudioBlock(Base64Source("audio/mpeg", "AAAA")),
                    DocumentBlock(Base64Source("application/pdf", "AAAA"), "a.pdf"),
                    DocumentBlock(FileIdSource("openai-chat", "file-1")),
                ]
            )
        ],
    ),
    (
        "a tool loop, its results as a string and as parts",
        [
            HI,
            {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [call("c1", "f", '{"a":1}'), call("c2", "g", "")],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "one"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "two"}]},
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [
                    ThinkingBlock("hm"),
                    ToolCallBlock("c1", "f", {"a": 1}, '{"a":1}'),
                    ToolCallBlock("c2", "g", {}, ""),
                ]
            ),
            ToolResultMessage("c1", "f", "one"),
            ToolResultMessage("c2", "g", [TextBlock("two")]),
        ],
    ),
    (
        "invalid JSON arguments keep their text",
        [HI, {"role": "assistant", "tool_calls": [call("c1", "f", "{oops")]}],
        [
            UserMessage("Hi"),
            AssistantMessage([ToolCallBlock("c1", "f", {}, "{oops", "invalid")]),
        ],
    ),
    (
        "a refusal becomes text",
        [HI, {"role": "assistant", "content": None, "refusal": "No."}],
        [UserMessage("Hi"), AssistantMessage([TextBlock("No.")])],
    ),
]


@pytest.mark.parametrize(
    ("messages", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES]
)
def test_messages(messages: list[Any], expected: list[Any]) -> None:
    asked = read(messages)
    assert asked.context.messages == expected
    assert asked.dropped == []


OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 0.5, "top_p": 1}, {"temperature": 0.5, "top_p": 1}),
    ({"max_tokens": 7}, {"max_tokens": 7}),
    ({"max_tokens": 7, "max_completion_tokens": 8}, {"max_tokens": 8}),
    ({"stop": "."}, {"stop": "."}),
    ({"stop": [".", "!"]}, {"stop": (".", "!")}),
    ({"seed": 1, "user": "u"}, {"seed": 1, "user": "u"}),
    ({"prompt_cache_key": "k"}, {"session_id": "k"}),
    ({"reasoning_effort": "xhigh"}, {"thinking": "extra_high"}),
    ({"reasoning_effort": "none"}, {"thinking": "off"}),
    ({"tool_choice": "required"}, {"tool_choice": "required"}),
    (
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": "f"},
    ),
    ({"parallel_tool_calls": False}, {"parallel_tool_calls": False}),
    ({"response_format": {"type": "text"}}, {}),
    ({"response_format": {"type": "json_object"}}, {"response_format": "json"}),
    (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "N", "strict": True, "schema": {"type": "object"}},
            }
        },
        {"response_format": {"title": "N", "type": "object"}},
    ),
    ({"n": 1, "stream_options": {"include_usage": True}}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "expected"), OPTIONS)
def test_options(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    asked = read(**fields)
    assert asked.options == expected
    assert (asked.dropped, asked.own) == ([], {})


def test_tools() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    function = {"name": "f", "description": "does", "parameters": schema, "strict": True}
    asked = read(tools=[{"type": "function", "function": function}])
    assert asked.context.tools == [Tool("f", "does", schema, True)]
    assert asked.dropped == []


def test_unknown_fields_are_reported() -> None:
    asked = read(
        [
            {**HI, "name": "Ann", "mood": "good"},
            {"role": "user", "content": [{"type": "smell"}, {"type": "text", "text": "a", "x": 1}]},
        ],
        tools=[{"type": "web_search"}, {"type": "function", "function": {"name": "f", "y": 1}}],
        tool_choice={"type": "allowed_tools"},
        reasoning_effort="enormous",
        store=True,
        logit_bias={"1": 2},
    )  # fmt: skip
    assert asked.dropped == [
        "messages[0].mood",
        "messages[1].content[0] (smell)",
        "messages[1].content[1].x",
        "tools[1].function.y",
    ]
    assert asked.context.messages[0] == UserMessage("Hi", "Ann")
    assert asked.own == {
        "store": True,
        "logit_bias": {"1": 2},
        "reasoning_effort": "enormous",
        "tool_choice": {"type": "allowed_tools"},
        "tools": [{"type": "web_search"}],
    }


LOCAL = {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}
FILE = {"role": "user", "content": [LOCAL]}

REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"model": 1}, "model is a number; expected a string"),
    ({"messages": "Hi"}, "messages is a string; expected a list"),
    ({"messages": [1]}, "messages[0] is a number; expected an object"),
    ({"messages": [{"role": "king"}]}, "messages[0].role is 'king', an unknown role"),
    ({"temperature": "hot"}, "temperature is a string; expected a number"),
    ({"stream": "yes"}, "stream is a string; expected a boolean"),
    ({"n": 0}, "n is 0; expected a whole number from 1 to 128"),
    ({"n": 129}, "n is 129; expected a whole number from 1 to 128"),
    ({"n": 2.5}, "n is 2.5; expected a whole number from 1 to 128"),
    ({"n": 1e999}, "n is inf; expected a whole number from 1 to 128"),
    ({"n": "2"}, "n is a string; expected a number"),
    ({"messages": [FILE]}, "messages[0].content[0].image_url is not a URL"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "said"), REFUSED)
def test_an_invalid_request_is_refused_with_the_path(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        ChatProtocol().read({"model": "m", "messages": [HI], **fields}, {}, {})
    assert said in str(refused.value)

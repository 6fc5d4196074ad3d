"""Conversion of Anthropic's Messages requests to swink's conversations and options."""

from __future__ import annotations

from typing import Any

import pytest

from swink_core import (
    AssistantMessage,
    Base64Source,
    CacheStrategy,
    DocumentBlock,
    ExtensionBlock,
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
    dump,
)
from swink_gateway.protocols import Asked, BadRequest
from swink_gateway.protocols.messages.protocol import MessagesProtocol
from swink_gateway.protocols.sealing import seal

WIRE = "anthropic-messages"
HI = {"role": "user", "content": "Hi"}
KEPT = CacheStrategy()
CACHED = {"cache_control": {"type": "ephemeral"}}


def read(messages: Any = (HI,), headers: Any = None, **fields: Any) -> Asked:
    body = {"model": "m", "max_tokens": 5, "messages": list(messages), **fields}
    return MessagesProtocol().read(body, {}, headers or {})


def answered(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


SEARCH = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
FOREIGN = ExtensionBlock("openai", "web_search_call", {"id": "ws_1"})

MESSAGES: list[tuple[str, list[Any], list[Any]]] = [
    (
        "an instruction inside the conversation",
        [HI, {"role": "system", "content": "A"}, answered({"type": "text", "text": "B"})],
        [UserMessage("Hi"), SystemMessage("A"), AssistantMessage([TextBlock("B")])],
    ),
    (
        "blocks of all kinds",
        [
            user(
                {"type": "text", "text": "See", **CACHED},
                {"type": "image", "source": {"type": "url", "url": "https://x/a.png"}},
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
                },
                {"type": "image", "source": {"type": "file", "file_id": "f1"}},
                {
                    "type": "document",
                    "title": "T",
                    "source": {"type": "text", "media_type": "text/plain", "data": "abc"},
                    "citations": {"enabled": True},
                },
                {"type": "search_result", "content": []},
            )
        ],
        [
            UserMessage(
                [
                    TextBlock("See", CACHED),
                    ImageBlock(UrlSource("https://x/a.png")),
                    ImageBlock(Base64Source("image/png", "AAAA")),
                    ImageBlock(FileIdSource(WIRE, "f1")),
                    DocumentBlock(
                        Base64Source("text/plain", "YWJj"), "T", {"citations": {"enabled": True}}
                    ),
                    ExtensionBlock(WIRE, "search_result", {"type": "search_result", "content": []}),
                ]
            )
        ],
    ),
    (
        "a text with a charset, which does not apply to JSON",
        [
            user(
                {
                    "type": "document",
                    "source": {
                        "type": "text",
                        "media_type": "text/plain; charset=latin1",
                        "data": "é",
                    },
                }
            )
        ],
        [UserMessage([DocumentBlock(Base64Source("text/plain", "w6k="))])],
    ),
    (
        "a tool loop: results become separate messages",
        [
            HI,
            answered(
                {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}, **CACHED},
                {"type": "tool_use", "id": "c2", "name": "g", "input": {}},
            ),
            user(
                {"type": "tool_result", "tool_use_id": "c1", "content": "one", **CACHED},
                {"type": "tool_result", "tool_use_id": "c2", "is_error": True},
                {"type": "text", "text": "Go on."},
            ),
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [
                    ToolCallBlock("c1", "f", {"a": 1}, '{"a":1}'),
                    ToolCallBlock("c2", "g", {}, "{}"),
                ]
            ),
            ToolResultMessage("c1", "f", [TextBlock("one", CACHED)]),
            ToolResultMessage("c2", "g", "", True),
            UserMessage([TextBlock("Go on.")]),
        ],
    ),
    (
        "thinking that this protocol's own provider signed",
        [
            HI,
            answered(
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "redacted_thinking", "data": "xyz"},
                SEARCH,
            ),
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [
                    ThinkingBlock("hm", "c2ln"),
                    ThinkingBlock("", "xyz", True),
                    ExtensionBlock(WIRE, "server_tool_use", SEARCH),
                ],
                provider=WIRE,
            ),
        ],
    ),
    (
        "unsigned thinking belongs to any provider",
        [HI, answered({"type": "thinking", "thinking": "hm", "signature": ""})],
        [UserMessage("Hi"), AssistantMessage([ThinkingBlock("hm")])],
    ),
    (
        "sealed data returns to its provider",
        [
            HI,
            answered(
                {
                    "type": "thinking",
                    "thinking": "hm",
                    "signature": seal("gemini", signature="s", metadata={"a": [1]}),
                },
                {
                    "type": "redacted_thinking",
                    "data": seal("gemini", of=["c1", 0], metadata={"t": "x"}),
                },
                {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
                {"type": "redacted_thinking", "data": seal("gemini", block=dump(FOREIGN))},
            ),
        ],
        [
            UserMessage("Hi"),
            AssistantMessage(
                [
                    ThinkingBlock("hm", "s", metadata={"a": [1]}),
                    ToolCallBlock("c1", "f", {}, "{}", metadata={"t": "x"}),
                    FOREIGN,
                ],
                provider="gemini",
            ),
        ],
    ),
]


@pytest.mark.parametrize(
    ("messages", "expected"), [row[1:] for row in MESSAGES], ids=[row[0] for row in MESSAGES]
)
def test_messages(messages: list[Any], expected: list[Any]) -> None:
    asked = read(messages)
    assert asked.context.messages == expected
    assert asked.dropped == []


def thinking(**fields: Any) -> dict[str, Any]:
    return {"thinking": {"type": "adaptive"}, **fields}


OPTIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"temperature": 1, "top_p": 0.5, "top_k": 3}, {"temperature": 1, "top_p": 0.5, "top_k": 3}),
    ({"stop_sequences": ["."]}, {"stop": (".",)}),
    ({"metadata": {"user_id": "u"}}, {"user": "u"}),
    (thinking(), {"thinking": "high"}),
    (thinking(output_config={"effort": "low"}), {"thinking": "low"}),
    ({"thinking": {"type": "between_tools"}}, {"thinking": "off"}),
    ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, {"thinking": 2000}),
    ({"thinking": {"type": "disabled"}}, {"thinking": "off"}),
    ({"tool_choice": {"type": "any"}}, {"tool_choice": "required"}),
    (
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        {"tool_choice": "auto", "parallel_tool_calls": False},
    ),
    ({"tool_choice": {"type": "tool", "name": "f"}}, {"tool_choice": "f"}),
    (
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        {"response_format": {"type": "object"}},
    ),
    (
        {"system": [{"type": "text", "text": "A", "cache_control": {"type": "x", "ttl": "1h"}}]},
        {"cache": CacheStrategy(ttl=3600)},
    ),
]


@pytest.mark.parametrize(("fields", "expected"), OPTIONS)
def test_options(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    asked = read(**fields)
    assert asked.options == {"max_tokens": 5, **expected}
    assert (asked.dropped, asked.own) == ([], {})


EFFORTS: list[tuple[str, dict[str, Any], Any, bool]] = [
    ("low", {"type": "disabled"}, "off", False),
    ("low", {"type": "between_tools"}, "off", False),
    ("low", {"type": "enabled", "budget_tokens": 2000}, 2000, False),
    ("max", {"type": "adaptive"}, "extra_high", True),
    ("newest", {"type": "adaptive", "display": "omitted"}, "high", True),
]
"""The effort, the thinking, swink's option, and whether the effort replaces the option's level."""


@pytest.mark.parametrize(("effort", "said", "expected", "is_exact"), EFFORTS)
def test_an_effort_that_the_thinking_option_does_not_contain_is_kept_for_anthropic(
    effort: str, said: dict[str, Any], expected: Any, is_exact: bool
) -> None:
    fields = {"output_config": {"effort": effort}}
    asked = read(thinking=said, **fields)
    assert (asked.options["thinking"], asked.own_options, asked.dropped) == (expected, {}, [])
    assert (asked.own, asked.exact_thinking) == (({}, fields) if is_exact else (fields, {}))


def test_an_unknown_type_of_thinking_is_dropped() -> None:
    asked = read(thinking={"type": "deep"}, output_config={"effort": "low"})
    assert "thinking" not in asked.options
    assert asked.dropped == ["thinking.type (deep)"]
    assert asked.own == {"output_config": {"effort": "low"}}


def test_the_system_prompt_is_a_string_or_blocks() -> None:
    assert read(system="A").context.system_prompt == "A"
    blocks = [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]
    assert read(system=blocks).context.system_prompt == "A\n\nB"
    marked = [{**blocks[0], **CACHED}, blocks[1]]
    assert read(system=marked).context.system_prompt == [TextBlock("A", CACHED), TextBlock("B")]


BLANK = {"type": "text", "text": " "}
HIT = {"type": "search_result", "source": "s", "title": "t", "content": []}
RESULT = {"type": "tool_result", "tool_use_id": "c", **CACHED}

# what a client says, and the option for a provider with the same protocol
MARKS: list[tuple[dict[str, Any], CacheStrategy | None]] = [
    (CACHED, None),
    ({"system": [{"type": "text", "text": "A", **CACHED}]}, None),
    ({"tools": [{"name": "f", **CACHED}]}, None),
    ({"messages": [answered({"type": "tool_use", "id": "c", "name": "f", **CACHED})]}, KEPT),
    ({"messages": [user({"type": "tool_result", "tool_use_id": "c", **CACHED})]}, KEPT),
    ({"messages": [user({**RESULT, "content": [BLANK]})]}, KEPT),
    ({"messages": [user({**RESULT, "content": [HIT, BLANK]})]}, None),
]


@pytest.mark.parametrize(("said", "kept"), MARKS, ids=str)
def test_an_option_stands_for_cache_marks_that_a_provider_cannot_get(
    said: dict[str, Any], kept: CacheStrategy | None
) -> None:
    asked = read(**said)
    assert asked.options["cache"] == CacheStrategy()
    assert asked.own_options == {"cache": kept}


def test_tools_of_the_client_and_of_the_vendor() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    own = {"name": "f", "input_schema": schema, "strict": True, "defer_loading": True, **CACHED}
    asked = read(tools=[own, search], headers={"anthropic-beta": "b1,b2"})
    fields = {"defer_loading": True, **CACHED}
    assert asked.context.tools == [Tool("f", "", schema, True, {WIRE: fields})]
    assert asked.own == {"tools": [search]}
    assert asked.headers == {"anthropic-beta": "b1,b2"}
    assert asked.dropped == []


def test_unknown_fields_are_reported_or_kept_for_anthropic() -> None:
    asked = read(
        [{**HI, "mood": "good"}],
        output_config={"effort": "high"},
        context_management={"edits": []},
        metadata={"user_id": "u", "tenant": 1},
    )
    assert sorted(asked.dropped) == [
        "messages[0].mood",
        "metadata.tenant",
    ]
    assert asked.own == {
        "context_management": {"edits": []},
        "output_config": {"effort": "high"},
    }


REFUSED: list[tuple[list[Any], str]] = [
    ([{"role": "king", "content": "a"}], "messages[0].role is 'king', an unknown role"),
    ([user({"type": "tool_result"})], "messages[0].content[0].tool_use_id is missing"),
    (
        [user({"type": "image", "source": {"type": "url", "url": "file:///etc/passwd"}})],
        "messages[0].content[0].source.url is not a URL",
    ),
    (
        [user({"type": "image", "source": {"type": "path", "path": "/etc/passwd"}})],
        "messages[0].content[0].source.type is 'path', an unknown source type",
    ),
]


@pytest.mark.parametrize(("messages", "said"), REFUSED)
def test_an_invalid_request_is_refused_with_the_path(messages: list[Any], said: str) -> None:
    with pytest.raises(BadRequest) as refused:
        read(messages)
    assert said in str(refused.value)

"""Each frame of the Messages API, in small invented answers."""

from __future__ import annotations

from typing import Any

import pytest
from messages_api import (
    CITATION,
    SERVER_TOOL,
    START,
    STOP,
    TEXT,
    TOOL,
    block,
    body,
    ended,
    input_json,
    text,
)

from swink_core import (
    AssistantMessage,
    AssistantMessageEvent,
    Block,
    ExtensionBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from swink_provider_anthropic import AnthropicProvider
from swink_testing.chunking import every_cut
from swink_testing.driver import drive_bytes, fold

PROVIDER = AnthropicProvider("anthropic")


async def _events(*frames: dict[str, Any]) -> list[AssistantMessageEvent]:
    return await drive_bytes(PROVIDER, "any", [body(*frames)])


async def _answer(*blocks: dict[str, Any], reason: str = "end_turn") -> AssistantMessage:
    return fold(await _events(START, *blocks, ended(reason), STOP), "anthropic")


CALLER = {"type": "code_execution_20250825", "tool_id": "s1"}


def _call(raw: str, arguments: dict[str, Any], **more: Any) -> ToolCallBlock:
    return ToolCallBlock("t1", "look", arguments, raw, **more)


def _extension(data: dict[str, Any]) -> ExtensionBlock:
    return ExtensionBlock("anthropic", data["type"], data)


BLOCKS: list[tuple[str, list[dict[str, Any]], list[Block]]] = [
    ("text in pieces", block(0, TEXT, text("Hel"), text("lo")), [TextBlock("Hello")]),
    (
        "text that begins in its start",
        block(0, {"type": "text", "text": "Hel"}, text("lo")),
        [TextBlock("Hello")],
    ),
    (
        "two texts are two blocks",
        [*block(0, TEXT, text("a")), *block(1, TEXT, text("b"))],
        [TextBlock("a"), TextBlock("b")],
    ),
    ("text without any text", [*block(0, TEXT), *block(1, TEXT, text("b"))], [TextBlock("b")]),
    (
        "citations",
        block(
            0,
            {**TEXT, "citations": []},
            text("green"),
            {"type": "citations_delta", "citation": CITATION},
            {"type": "citations_delta", "citation": {**CITATION, "document_index": 1}},
        ),
        [TextBlock("green", {"citations": [CITATION, {**CITATION, "document_index": 1}]})],
    ),
    (
        "citations that are there from the start",
        block(0, {"type": "text", "text": "green", "citations": [CITATION]}),
        [TextBlock("green", {"citations": [CITATION]})],
    ),
    (
        "thinking and its signature",
        block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "hm"},
            {"type": "thinking_delta", "thinking": ""},
            {"type": "signature_delta", "signature": "c2ln=="},
        ),
        [ThinkingBlock("hm", "c2ln==")],
    ),
    (
        "thinking that is not shown",
        block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        [ThinkingBlock("", "c2ln")],
    ),
    (
        "redacted thinking",
        block(0, {"type": "redacted_thinking", "data": "ZW5j"}),
        [ThinkingBlock("", "ZW5j", redacted=True)],
    ),
    (
        "a tool call in pieces",
        block(0, TOOL, input_json(""), input_json('{"at"'), input_json(": 1}")),
        [_call('{"at": 1}', {"at": 1})],
    ),
    ("a tool call without arguments", block(0, TOOL, input_json("")), [_call("", {})]),
    (
        "a tool call given whole",
        block(0, {**TOOL, "input": {"at": 1}}),
        [_call('{"at":1}', {"at": 1})],
    ),
    (
        "a tool call given whole and then in pieces",
        block(0, {**TOOL, "input": {"at": 1}}, input_json(""), input_json('{"at": 2}')),
        [_call('{"at": 2}', {"at": 2})],
    ),
    (
        "a tool call of a server's tool",
        block(0, {**TOOL, "caller": CALLER}, input_json("{}")),
        [_call("{}", {}, metadata={"caller": CALLER})],
    ),
    (
        "a tool call that does not parse",
        block(0, TOOL, input_json('{"at": ')),
        [_call('{"at": ', {}, state="invalid")],
    ),
    (
        "calls whose pieces interleave",
        [
            *block(0, TOOL, input_json('{"at": '))[:-1],
            *block(1, {**TOOL, "id": "t2"}, input_json("{"))[:-1],
            {"type": "content_block_delta", "index": 0, "delta": input_json("1}")},
            {"type": "content_block_delta", "index": 1, "delta": input_json("}")},
        ],
        [_call('{"at": 1}', {"at": 1}), ToolCallBlock("t2", "look", {}, "{}")],
    ),
    (
        "a server's tool with streamed input",
        block(0, SERVER_TOOL, input_json('{"query": '), input_json('"x"}')),
        [_extension({**SERVER_TOOL, "input": {"query": "x"}})],
    ),
    (
        "a server's tool with input from the start",
        block(0, {**SERVER_TOOL, "input": {"query": "x"}}, input_json("")),
        [_extension({**SERVER_TOOL, "input": {"query": "x"}})],
    ),
    (
        "a server's tool whose input does not parse",
        block(0, SERVER_TOOL, input_json('{"query": ')),
        [_extension({**SERVER_TOOL, "input": '{"query": '})],
    ),
    (
        "a server tool's result",
        block(0, {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"a": None}]}),
        [
            _extension(
                {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"a": None}]}
            )
        ],
    ),
    (
        "a compaction",
        block(
            0,
            {"type": "compaction", "content": None},
            {"type": "compaction_delta", "content": "So far: ", "encrypted_content": None},
            {"type": "compaction_delta", "content": "x", "encrypted_content": "ZW5j"},
        ),
        [_extension({"type": "compaction", "content": "So far: x", "encrypted_content": "ZW5j"})],
    ),
    (
        "a block of an unknown type",
        block(
            0,
            {"type": "hologram", "text": "a", "depth": 1},
            text("b"),
            {"type": "citations_delta", "citation": CITATION},
            {"type": "depth_delta", "depth": 2},
        ),
        [_extension({"type": "hologram", "text": "ab", "depth": 2, "citations": [CITATION]})],
    ),
    (
        "deltas of an unknown type",
        block(0, TEXT, text("a"), {"type": "emphasis_delta", "emphasis": 3}, text("b")),
        [TextBlock("ab")],
    ),
    (
        "a block that begins before the last one's stop",
        [
            *block(0, TEXT, text("a"))[:-1],
            *block(1, SERVER_TOOL, input_json('{"query": "x"}'))[:-1],
            *block(2, TOOL, input_json("{}"))[:-1],
            *block(3, TEXT, text("b")),
            *({"type": "content_block_stop", "index": index} for index in range(3)),
        ],
        [
            TextBlock("a"),
            _extension({**SERVER_TOOL, "input": {"query": "x"}}),
            _call("{}", {}),
            TextBlock("b"),
        ],
    ),
    (
        "a block whose stop never comes",
        block(0, SERVER_TOOL, input_json('{"query": "x"}'))[:-1],
        [_extension({**SERVER_TOOL, "input": {"query": "x"}})],
    ),
    (
        "frames without what they are about",
        [
            {"type": "content_block_start", "index": 0, "content_block": None},
            {"type": "content_block_delta", "index": 0, "delta": None},
            {"type": "content_block_stop", "index": 9},
            {"type": "message_start", "message": None},
            {"type": "ping"},
            {"type": "of tomorrow", "index": 1.0},
            {"type": None},
            *block(0, TEXT, text("a")),
        ],
        [TextBlock("a")],
    ),
]


@pytest.mark.parametrize(
    ("name", "frames", "content"), BLOCKS, ids=[name.replace(" ", "-") for name, *_ in BLOCKS]
)
async def test_blocks(name: str, frames: list[dict[str, Any]], content: list[Block]) -> None:
    reason = (
        "tool_use" if any(isinstance(block, ToolCallBlock) for block in content) else "end_turn"
    )
    assert (await _answer(*frames, reason=reason)).content == content


@pytest.mark.parametrize(
    ("name", "frames", "content"), BLOCKS, ids=[name.replace(" ", "-") for name, *_ in BLOCKS]
)
async def test_any_single_cut_gives_the_same_events(
    name: str, frames: list[dict[str, Any]], content: list[Block]
) -> None:
    answer = body(START, *frames, ended(), STOP)
    whole = await drive_bytes(PROVIDER, "any", [answer])
    for chunks in every_cut(answer):
        assert await drive_bytes(PROVIDER, "any", chunks) == whole, len(chunks[0])

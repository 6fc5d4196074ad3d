"""Answers of echo: a table of (model, prompt, options, expected message)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from echo_calls import ADD, MULTIPLY, ask

from swink_core import (
    Client,
    ContextWindowExceeded,
    StopReason,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ToolCallBlock,
)


def call(id: str, name: str, **arguments: Any) -> ToolCallBlock:
    return ToolCallBlock(id, name, arguments, json.dumps(arguments))


THOUGHT = ThinkingBlock("The prompt has 2 words. I will now repeat them.", "echo-b8a5f907")

ANSWERS: list[tuple[str, str, str, dict[str, Any], list[Any], StopReason]] = [
    ("it says the user's words", "echo", "a b", {}, [TextBlock("a b")], StopReason.STOP),
    ("white space is kept", "echo", " a \n b ", {}, [TextBlock(" a \n b ")], StopReason.STOP),
    (
        "silence is answered too",
        "echo",
        " ",
        {},
        [TextBlock("(prompt was empty)")],
        StopReason.STOP,
    ),
    ("think thinks first", "think", "a b", {}, [THOUGHT, TextBlock("a b")], StopReason.STOP),
    (
        "thinking on request",
        "echo",
        "a b",
        {"thinking": "low"},
        [THOUGHT, TextBlock("a b")],
        StopReason.STOP,
    ),
    (
        "thinking may be forbidden",
        "think",
        "a b",
        {"thinking": "off"},
        [TextBlock("a b")],
        StopReason.STOP,
    ),
    (
        "calls a default tool if none is offered",
        "tool",
        "a b",
        {},
        [call("echo_call_1", "echo", text="a b")],
        StopReason.TOOL_USE,
    ),
    (
        "tool calls the first tool on offer, as its schema wants",
        "tool",
        "a b",
        {"tools": [ADD, MULTIPLY]},
        [call("echo_call_1", "add", a=2, note="a b")],
        StopReason.TOOL_USE,
    ),
    (
        "tools calls all of them",
        "tools",
        "a b",
        {"tools": [ADD, MULTIPLY]},
        [call("echo_call_1", "add", a=2, note="a b"), call("echo_call_2", "multiply")],
        StopReason.TOOL_USE,
    ),
    (
        "tools calls one where parallel calls are not wanted",
        "tools",
        "a b",
        {"tools": [MULTIPLY, ADD], "parallel_tool_calls": False},
        [call("echo_call_1", "multiply")],
        StopReason.TOOL_USE,
    ),
    (
        "a tool that must be called is called",
        "echo",
        "a b",
        {"tools": [ADD, MULTIPLY], "tool_choice": "multiply"},
        [call("echo_call_1", "multiply")],
        StopReason.TOOL_USE,
    ),
    (
        "some tool must be called",
        "echo",
        "a b",
        {"tools": [MULTIPLY], "tool_choice": "required"},
        [call("echo_call_1", "multiply")],
        StopReason.TOOL_USE,
    ),
    (
        "no tool may be called",
        "tool",
        "a b",
        {"tools": [ADD], "tool_choice": "none"},
        [TextBlock("a b")],
        StopReason.STOP,
    ),
    (
        "directions name the tool and its arguments",
        "echo",
        "a b",
        {"tools": [MULTIPLY, ADD], "settings": {"script": {"tool": "add", "arguments": {"a": 7}}}},
        [call("echo_call_1", "add", a=7)],
        StopReason.TOOL_USE,
    ),
    (
        "arguments may be broken",
        "tool",
        "a b",
        {"tools": [MULTIPLY], "settings": {"script": {"arguments": '{"a": '}}},
        [ToolCallBlock("echo_call_1", "multiply", {}, '{"a": ', "invalid")],
        StopReason.TOOL_USE,
    ),
    (
        "the limit counts words",
        "echo",
        "a b c d",
        {"max_tokens": 3},
        [TextBlock("a b c")],
        StopReason.LENGTH,
    ),
    (
        "the limit counts words of thought",
        "think",
        "a b",
        {"max_tokens": 4},
        [ThinkingBlock("The prompt has 2", "echo-5b47d0f4")],
        StopReason.LENGTH,
    ),
    (
        "the limit cuts arguments",
        "tool",
        "a b",
        {"max_tokens": 2},
        [ToolCallBlock("echo_call_1", "echo", {}, '{"text": "a', "truncated")],
        StopReason.LENGTH,
    ),
    (
        "a stop sequence cuts the text before it",
        "echo",
        "one two three",
        {"stop": ["three", "two"]},
        [TextBlock("one ")],
        StopReason.STOP,
    ),
    ("json answers in JSON", "json", "a b", {}, [TextBlock('{"echo": "a b"}')], StopReason.STOP),
    (
        "JSON on request",
        "echo",
        "a b",
        {"response_format": "json"},
        [TextBlock('{"echo": "a b"}')],
        StopReason.STOP,
    ),
    (
        "JSON fits the schema",
        "echo",
        "a b",
        {"response_format": {"properties": {"words": {"type": "number"}}}},
        [TextBlock('{"words": 2}')],
        StopReason.STOP,
    ),
    (
        "another reply may be given",
        "echo",
        "a b",
        {"settings": {"script": {"reply": "No."}}},
        [TextBlock("No.")],
        StopReason.STOP,
    ),
    (
        "a reply is unchanged if JSON is requested",
        "echo",
        "a b",
        {"settings": {"script": {"reply": "No."}}, "response_format": {"type": "integer"}},
        [TextBlock("No.")],
        StopReason.STOP,
    ),
    (
        "the answer may be repeated",
        "echo",
        "a b",
        {"settings": {"script": {"words": 5}}},
        [TextBlock("a b a b a")],
        StopReason.STOP,
    ),
    (
        "the answer is the same in letters",
        "think",
        "a b",
        {"settings": {"script": {"delta": 1}}},
        [THOUGHT, TextBlock("a b")],
        StopReason.STOP,
    ),
    ("silent says nothing", "silent", "a b", {}, [], StopReason.STOP),
    *(
        (
            f"it stops with {reason}",
            f"stop-{reason.replace('_', '-')}",
            "a b",
            {},
            [TextBlock("a b")],
            reason,
        )
        for reason in StopReason
        if reason not in (StopReason.ERROR, StopReason.ABORTED)
    ),
]


@pytest.mark.parametrize(
    ("model", "text", "options", "content", "reason"),
    [row[1:] for row in ANSWERS],
    ids=[row[0] for row in ANSWERS],
)
def test_answer(
    model: str, text: str, options: dict[str, Any], content: list[Any], reason: StopReason
) -> None:
    message = ask(model, text, **options)

    assert message.content == content
    assert message.stop_reason is reason


def test_long_says_two_thousand_words() -> None:
    message = ask("long", "over and out")

    assert message.text.split() == (["over", "and", "out"] * 667)[:2000]


def test_a_conversation_that_is_too_long_is_refused() -> None:
    with pytest.raises(ContextWindowExceeded, match="up to 2,000,000 characters"):
        ask("echo", "a" * 2_000_000)


async def test_the_deltas_of_a_long_text_have_several_words() -> None:
    prompt = "a " * 25_000
    async with Client() as client:
        events = [event async for event in client.stream("echo/echo", prompt)]
    deltas = [event.delta for event in events if isinstance(event, TextDelta)]
    assert len(deltas) == 8_334
    assert "".join(deltas) == prompt

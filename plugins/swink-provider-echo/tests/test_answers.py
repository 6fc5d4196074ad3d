"""What echo answers: a table of (model, what is said, options, expected message)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import swink_core as swink
from swink_core import (
    AssistantMessage,
    AudioBlock,
    Base64Source,
    Client,
    Context,
    DocumentBlock,
    FileSource,
    ImageBlock,
    Notice,
    StopReason,
    TextBlock,
    ThinkingBlock,
    Tool,
    ToolCallBlock,
    ToolResultMessage,
    UrlSource,
    Usage,
    UserMessage,
)

PIXEL = Base64Source("image/png", "QUJDRA==")  # four bytes

ADD = Tool(
    "add",
    parameters={
        "type": "object",
        "properties": {"a": {"type": "integer"}, "note": {"type": "string"}},
    },
)
MULTIPLY = Tool("multiply")


def ask(model: str, context: Any, **options: Any) -> AssistantMessage:
    async def run() -> AssistantMessage:
        async with Client() as client:
            return await client.complete(f"echo/{model}", context, **options)

    return asyncio.run(run())


def call(id: str, name: str, **arguments: Any) -> ToolCallBlock:
    return ToolCallBlock(id, name, arguments, json.dumps(arguments))


THOUGHT = ThinkingBlock("I was told 2 words. I shall say them again.", "echo-a821f8d2")

ANSWERS: list[tuple[str, str, str, dict[str, Any], list[Any], StopReason]] = [
    ("it says the user's words", "echo", "a b", {}, [TextBlock("a b")], StopReason.STOP),
    ("white space is kept", "echo", " a \n b ", {}, [TextBlock(" a \n b ")], StopReason.STOP),
    (
        "silence is answered too",
        "echo",
        " ",
        {},
        [TextBlock("(nothing was said)")],
        StopReason.STOP,
    ),
    ("think thinks first", "think", "a b", {}, [THOUGHT, TextBlock("a b")], StopReason.STOP),
    (
        "thinking may be asked for",
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
        "tool calls a tool of its own where none is offered",
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
        {"tools": [MULTIPLY, ADD], "extra": {"echo": {"tool": "add", "arguments": {"a": 7}}}},
        [call("echo_call_1", "add", a=7)],
        StopReason.TOOL_USE,
    ),
    (
        "arguments may be broken",
        "tool",
        "a b",
        {"tools": [MULTIPLY], "extra": {"echo": {"arguments": '{"a": '}}},
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
        [ThinkingBlock("I was told 2", "echo-0ac0911e")],
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
        "JSON may be asked for",
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
        {"extra": {"echo": {"reply": "No."}}},
        [TextBlock("No.")],
        StopReason.STOP,
    ),
    (
        "the answer may be repeated",
        "echo",
        "a b",
        {"extra": {"echo": {"words": 5}}},
        [TextBlock("a b a b a")],
        StopReason.STOP,
    ),
    (
        "the answer is the same in letters",
        "think",
        "a b",
        {"extra": {"echo": {"delta": 1}}},
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


MEDIA = [
    ("an image", ImageBlock(PIXEL), "[image image/png 4 bytes]"),
    ("sound", AudioBlock(Base64Source("audio/wav", "QUI=")), "[audio audio/wav 2 bytes]"),
    (
        "a named document",
        DocumentBlock(Base64Source("application/pdf", "QUJD"), "report"),
        "[document report application/pdf 3 bytes]",
    ),
    (
        "an address",
        ImageBlock(UrlSource("https://example.org/a.png")),
        "[image image/png https://example.org/a.png]",
    ),
    (
        "an address without a known type",
        ImageBlock(UrlSource("https://example.org/a")),
        "[image https://example.org/a]",
    ),
]


@pytest.mark.parametrize(
    ("block", "words"), [row[1:] for row in MEDIA], ids=[row[0] for row in MEDIA]
)
def test_media_comes_back_in_words(block: Any, words: str) -> None:
    message = ask("echo", [UserMessage([TextBlock("Look:"), block])])

    assert message.text == f"Look:\n{words}"


def test_a_file_is_read_and_measured(tmp_path: Path) -> None:
    (tmp_path / "dot.png").write_bytes(b"12345")

    message = ask("echo", [UserMessage([ImageBlock(FileSource(str(tmp_path / "dot.png")))])])

    assert message.text == "[image image/png 5 bytes]"


USAGE: list[tuple[str, str, dict[str, Any], Usage]] = [
    ("words", "echo", {}, Usage(3, 3, reasoning=0, total=6, reported=True)),
    ("thought", "think", {}, Usage(3, 13, reasoning=10, total=16, reported=True)),
    (
        "system prompt",
        "echo",
        {"system_prompt": "Be brief."},
        Usage(5, 3, reasoning=0, total=8, reported=True),
    ),
    ("arguments", "tool", {}, Usage(3, 4, reasoning=0, total=7, reported=True)),
    (
        "letters",
        "echo",
        {"extra": {"echo": {"delta": 1}}},
        Usage(3, 3, reasoning=0, total=6, reported=True),
    ),
]


@pytest.mark.parametrize(
    ("model", "options", "usage"), [row[1:] for row in USAGE], ids=[row[0] for row in USAGE]
)
def test_usage_counts_words_and_costs_nothing(
    model: str, options: dict[str, Any], usage: Usage
) -> None:
    message = ask(model, "one two three", **options)

    assert message.usage == usage
    assert message.cost is not None
    assert message.cost.total == 0.0


def test_a_tool_conversation_comes_to_its_end() -> None:
    context = Context([UserMessage("two and two")], tools=[ADD])

    asked = ask("tool", context)
    context.messages += [asked, ToolResultMessage("echo_call_1", "add", "4")]
    told = ask("tool", context)
    context.messages += [told, UserMessage("once more")]
    again = ask("tool", context)

    assert told.text == "add returned: 4"
    assert [block.id for block in again.tool_calls] == ["echo_call_2"]


def test_a_failed_tool_is_told_as_such() -> None:
    asked = ask("tool", "two and two")
    failed = ToolResultMessage("echo_call_1", "echo", "no such file", is_error=True)

    message = ask("echo", [UserMessage("two and two"), asked, failed])

    assert message.text == "echo failed: no such file"


def test_the_same_conversation_has_the_same_answer_and_another_has_another_id() -> None:
    first, second, other = ask("echo", "a"), ask("echo", "a"), ask("echo", "b")

    assert first == second
    assert first.response_id != other.response_id


async def test_parallel_arguments_are_interleaved() -> None:
    options = {"extra": {"echo": {"arguments": "12", "delta": 1}}}
    async with (
        Client() as client,
        client.stream("echo/tools", "a", tools=[ADD, MULTIPLY], **options) as stream,
    ):
        deltas = [(e.content_index, e.delta) async for e in stream if e.type == "tool_call_delta"]

    assert deltas == [(0, "1"), (1, "1"), (0, "2"), (1, "2")]


IGNORED = [
    ("temperature", 0.5),
    ("top_p", 0.5),
    ("seed", 7),
    ("session_id", "s"),
    ("cache", "auto"),
]


@pytest.mark.parametrize(("name", "value"), IGNORED)
async def test_an_option_that_echo_lacks_is_reported(name: str, value: Any) -> None:
    async with Client() as client, client.stream("echo/echo", "a", **{name: value}) as stream:
        notices = [event async for event in stream if isinstance(event, Notice)]

    assert [notice.code for notice in notices] == ["option_ignored"]
    assert name in notices[0].detail


async def test_echo_hears_what_wrappers_let_through() -> None:
    class Redactor:
        @swink.hookimpl(wrapper=True)
        def convert_messages(self, model: Any, context: Any, options: Any) -> Any:
            payload = yield
            payload["messages"][-1]["text"] = payload["messages"][-1]["text"].replace("Eve", "X")
            return payload

    async with Client(plugins=[Redactor()]) as client:
        message = await client.complete("echo/echo", "I am Eve.")

    assert message.text == "I am X."

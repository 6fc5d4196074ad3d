"""The input that echo reads, counts and reports, in conversations of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from echo_calls import ADD, MULTIPLY, PIXEL, ask

import swink_core as swink
from swink_core import (
    AudioBlock,
    Base64Source,
    Client,
    Context,
    DocumentBlock,
    FileSource,
    ImageBlock,
    Notice,
    TextBlock,
    ToolResultMessage,
    UrlSource,
    Usage,
    UserMessage,
)

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
        {"settings": {"script": {"delta": 1}}},
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
    options = {"settings": {"script": {"arguments": "12", "delta": 1}}}
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

"""Ask the author of a recording whether the recorded message is correct.

The message of a recording is written by the provider's own parser. If a person confirms or corrects
each part of it, the recording is independent of possible errors in the parser.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec
from attrs import define

import swink_core as swink
from swink_cli.terminal import printable, say

__all__ = ["ask_a_person", "confirmed"]

SHOWN = 2000
"""The maximum number of characters of a part to print."""


@define(frozen=True)
class _Part:
    """A part of a message: the text to show, and the function that applies a correction."""

    name: str
    shown: Callable[[swink.AssistantMessage], str]
    corrected: Callable[[swink.AssistantMessage, str], swink.AssistantMessage]
    how: str


def confirmed(
    message: swink.AssistantMessage,
    ask: Callable[[str], bool],
    correct: Callable[[str], str],
) -> tuple[swink.AssistantMessage, list[str]]:
    """Let a person confirm the parts of a message, one at a time.

    Returns the corrected message and the names of the confirmed parts.

    `ask` asks a yes-or-no question and returns True for yes; `correct` asks for the right value.
    """
    names: list[str] = []
    for part in _PARTS:
        say(f"{part.name}: {printable(part.shown(message))[:SHOWN]}")
        if not ask("Is that what the answer says?"):
            message = _corrected(part, message, correct)
        names.append(part.name)
    return message, names


def _corrected(
    part: _Part, message: swink.AssistantMessage, correct: Callable[[str], str]
) -> swink.AssistantMessage:
    while True:
        try:
            return part.corrected(message, correct(f"The right {part.name} ({part.how})"))
        except (ValueError, KeyError, TypeError, msgspec.DecodeError) as error:
            say(f"{printable(str(error))}: try again")


def _with_text(message: swink.AssistantMessage, text: str) -> swink.AssistantMessage:
    others = [block for block in message.content if not isinstance(block, swink.TextBlock)]
    texts = [swink.TextBlock(text)] if text else []
    return swink.replace(message, content=[*texts, *others])


def _calls(message: swink.AssistantMessage) -> str:
    rows = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    return msgspec.json.encode(rows).decode()


def _with_calls(message: swink.AssistantMessage, text: str) -> swink.AssistantMessage:
    rows: list[dict[str, Any]] = msgspec.json.decode(text, type=list[dict[str, Any]])
    ids = [call.id for call in message.tool_calls]
    ids += [f"call_{number}" for number in range(len(ids), len(rows))]
    calls = [
        swink.ToolCallBlock(id, row["name"], row["arguments"])
        for id, row in zip(ids, rows, strict=False)
    ]
    others = [block for block in message.content if not isinstance(block, swink.ToolCallBlock)]
    return swink.replace(message, content=[*others, *calls])


def _usage(message: swink.AssistantMessage) -> str:
    usage = message.usage
    if usage is None or not usage.reported:
        return "none"
    return f"{usage.input} {usage.output}"


def _with_usage(message: swink.AssistantMessage, text: str) -> swink.AssistantMessage:
    if text.strip() == "none":
        return swink.replace(message, usage=None)
    given, made = map(int, text.split())
    usage = message.usage or swink.Usage()
    usage = swink.replace(usage, input=given, output=made, total=given + made, reported=True)
    return swink.replace(message, usage=usage)


def _with_reason(message: swink.AssistantMessage, text: str) -> swink.AssistantMessage:
    return swink.replace(message, stop_reason=swink.StopReason(text.strip()))


_PARTS = (
    _Part("text", lambda message: message.text or "none", _with_text, "empty for none"),
    _Part("tool calls", _calls, _with_calls, 'JSON: [{"name": "look_up", "arguments": {}}]'),
    _Part("usage", _usage, _with_usage, 'input and output tokens, or "none"'),
    _Part(
        "stop reason",
        lambda message: str(message.stop_reason),
        _with_reason,
        ", ".join(reason.value for reason in swink.StopReason),
    ),
)


def ask_a_person(
    message: swink.AssistantMessage, is_there: bool
) -> tuple[swink.AssistantMessage, list[str]]:
    """Let the person at the terminal confirm a message. Without a terminal, do nothing."""
    if not is_there:
        say("nothing was confirmed: no terminal to ask at")
        return message, []
    return confirmed(
        message,
        lambda question: click.confirm(question, default=True, err=True),
        lambda question: click.prompt(question, default="", show_default=False, err=True),
    )

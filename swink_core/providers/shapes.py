"""Forms of a call that some models refuse.

A form is, for example, a conversation that ends with an assistant message (`prefill`), or a certain
kind of schema. A model is assumed to accept every form unless the `takes` of a rule says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import dropwhile

from attrs import define

from swink_core.providers.contexts import text_of
from swink_core.providers.schemas import has_object_root, is_recursive
from swink_core.vocabulary.messages import (
    AssistantMessage,
    Block,
    Context,
    Message,
    SystemMessage,
    TextBlock,
    ToolCallBlock,
    UserMessage,
)
from swink_core.vocabulary.options import StreamOptions


@define(frozen=True)
class Shape:
    """A form of a call that some models refuse.

    `holds` returns True if a call has this form. `refusal` is the error message for a model that
    refuses the form.
    """

    holds: Callable[[Context, StreamOptions], bool]
    refusal: str


def _first(context: Context) -> Message | None:
    return next((m for m in context.messages if not isinstance(m, SystemMessage)), None)


def _prefill(context: Context, options: StreamOptions) -> bool:
    last = context.messages[-1] if context.messages else None
    content: list[Block] = last.content if isinstance(last, AssistantMessage) else []
    return bool(content) and isinstance(content[-1], TextBlock)


def _trailing_space(context: Context, options: StreamOptions) -> bool:
    if not _prefill(context, options):
        return False
    last = context.messages[-1].content[-1]
    cited = isinstance(last, TextBlock) and last.metadata
    return isinstance(last, TextBlock) and not cited and last.text != last.text.rstrip()


def _assistant_first(context: Context, options: StreamOptions) -> bool:
    return isinstance(_first(context), AssistantMessage)


def _call_first(context: Context, options: StreamOptions) -> bool:
    first = _first(context)
    return isinstance(first, AssistantMessage) and any(
        isinstance(block, ToolCallBlock) for block in first.content
    )


def _is_blank(message: Message) -> bool:
    if not isinstance(message, UserMessage):
        return False
    if isinstance(message.content, str):
        return not message.content.strip()
    texts = all(isinstance(block, TextBlock) for block in message.content)
    return texts and not text_of(message.content).strip()


def _blank_end(context: Context, options: StreamOptions) -> bool:
    """Return True if the conversation ends with blank messages after an assistant message.

    Also return True if all messages are blank.
    """
    rest = [*dropwhile(_is_blank, reversed(context.messages))]
    is_blank = len(rest) < len(context.messages)
    return is_blank and (not rest or isinstance(rest[0], AssistantMessage))


def _blank_stop(context: Context, options: StreamOptions) -> bool:
    return any(not text.strip() for text in options.stop)


def _recursive_schema(context: Context, options: StreamOptions) -> bool:
    wanted = options.response_format
    return isinstance(wanted, Mapping) and is_recursive(wanted)


def _root_schema(context: Context, options: StreamOptions) -> bool:
    wanted = options.response_format
    return isinstance(wanted, Mapping) and not has_object_root(wanted)


def calls_apart(message: Message) -> bool:
    """Return True if there is text between two tool calls of an assistant message."""
    if not isinstance(message, AssistantMessage):
        return False
    kinds = [type(block) for block in message.content]
    if kinds.count(ToolCallBlock) < 2:
        return False
    last = len(kinds) - 1 - kinds[::-1].index(ToolCallBlock)
    return TextBlock in kinds[kinds.index(ToolCallBlock) : last]


def _calls_apart(context: Context, options: StreamOptions) -> bool:
    return any(map(calls_apart, context.messages))


SHAPE_ROWS: Mapping[str, Shape] = {
    "prefill": Shape(_prefill, "does not support prefill"),
    "assistant_first": Shape(
        _assistant_first,
        "does not accept conversations that begin with an assistant message: put a user message "
        "first",
    ),
    "call_first": Shape(
        _call_first,
        "does not accept conversations that begin with a tool call: put a user message first",
    ),
    "blank_end": Shape(
        _blank_end,
        "does not accept blank text, and the conversation ends with a blank user message",
    ),
    "blank_stop": Shape(
        _blank_stop, "does not accept stop sequences that contain only white space"
    ),
    "recursive_schema": Shape(
        _recursive_schema, "does not accept a response_format whose schema refers to itself"
    ),
    "root_schema": Shape(
        _root_schema,
        "does not accept a response_format whose root is not an object: make the schema a "
        "property of an object",
    ),
    "trailing_space": Shape(
        _trailing_space, "cannot continue an assistant message that ends in white space"
    ),
    "calls_apart": Shape(
        _calls_apart, "does not accept text between two tool calls of an assistant message"
    ),
}
"""The forms of a call, by their names in `FORMS`."""

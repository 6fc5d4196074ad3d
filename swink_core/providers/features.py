"""Describe an API, and report content of a conversation that it does not support."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from typing import Protocol

from swink_core.providers.contexts import paths_inside
from swink_core.providers.source import Parser
from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.messages import (
    Context,
    SystemMessage,
    TextBlock,
)
from swink_core.vocabulary.models import Model

PER_MODEL = frozenset({"tools", "images", "documents", "audio", "structured_output", "json"})
"""Features whose support depends on the model, not only on the API."""


class API(Protocol):
    """The request and response format of one endpoint of a provider; see `HTTPProvider`."""

    api_name: str
    features: frozenset[str]
    buffered: bool
    websocket: bool

    @property
    def knobs(self) -> Collection[str]:
        """The names of the sampling and output options that the API supports."""

    def parser(self, model: Model) -> Parser:
        """Create a parser for one response."""


def context_notices(
    features: Collection[str],
    model: Model,
    context: Context,
    system_marks: Container[str] | None = None,
) -> tuple[Notice, ...]:
    """Return notices for values of a conversation that are sent in another form.

    `features` are the features of the API. Two of them are used here: `system_messages` means that
    the API accepts system messages anywhere in the conversation, and `strict` that it enforces a
    tool's schema. `system_marks` are the metadata fields that a block of system text may have in
    the request; `None` means that the request contains the system text as one string.
    """
    notices: list[Notice] = []
    has_system = any(issubclass(kind, SystemMessage) for kind in {*map(type, context.messages)})
    if has_system or isinstance(context.system_prompt, list):
        notices += _system_losses(model, context, system_marks)
        if "system_messages" not in features and (inside := paths_inside(context)):
            what = (
                f"{model}: system messages inside the conversation were sent as marked user "
                "messages"
            )
            notices.append(Notice("system_message_moved", what, inside))
    strict = [f"tools[{at}].strict" for at, tool in enumerate(context.tools) if tool.strict]
    if "strict" not in features and strict:
        what = f"{model} does not support strict schemas of tools; strict was not sent"
        notices.append(Notice("option_ignored", what, tuple(strict)))
    return tuple(notices)


def _system_losses(
    model: Model, context: Context, marks: Container[str] | None
) -> Iterator[Notice]:
    """Yield notices about system prompts and messages that lose their blocks or metadata."""
    said = [("system_prompt", context.system_prompt)]
    said += [
        (f"messages[{at}].content", message.content)
        for at, message in enumerate(context.messages)
        if isinstance(message, SystemMessage)
    ]
    for path, content in said:
        if content is None or isinstance(content, str):
            continue
        if marks is None and len(content) > 1:
            what = f"{path}: {model} accepts system text only as one string; the blocks were joined"
            yield Notice("system_blocks_joined", what, (path,))
        for place, block in enumerate(content):
            is_sent = isinstance(block, TextBlock) and block.text.strip()
            sent = marks if marks is not None and is_sent else ()
            if left_out := sorted(
                name for name in getattr(block, "metadata", None) or () if name not in sent
            ):
                names = ", ".join(left_out)
                what = (
                    f"{path}[{place}].metadata: {model} does not support {names}; it was not sent"
                )
                metadata = f"{path}[{place}].metadata"
                paths = tuple(f"{metadata}.{name}" for name in left_out)
                yield Notice("option_ignored", what, paths)

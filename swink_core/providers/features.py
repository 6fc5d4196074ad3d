"""What one of a provider's APIs takes of conversations and options."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from swink_core.providers.conversion import folded_system
from swink_core.providers.source import Parser
from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.messages import Context, SystemMessage
from swink_core.vocabulary.models import Model

KNOBS = (
    "temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "max_tokens", "seed",
    "session_id", "user", "thinking", "parallel_tool_calls", "cache",
)  # fmt: skip
"""Options that tune an answer: a provider without one says so in a notice and goes on."""

PER_MODEL = frozenset({"tools", "images", "documents", "audio", "structured_output", "json"})
"""Features that a provider may have and one of its models may lack."""


class API(Protocol):
    """What one of a provider's endpoints takes and how it answers; see `HTTPProvider`."""

    api_name: str
    features: frozenset[str]
    knobs: frozenset[str]
    buffered: bool
    websocket: bool

    def parser(self, model: Model) -> Parser:
        """Make a parser for one response."""


def context_notices(knobs: Collection[str], model: Model, context: Context) -> tuple[Notice, ...]:
    """Say what of a conversation goes out otherwise than it was given.

    Of an API's `knobs`, `system_messages` says that it takes them anywhere, `strict` that it
    holds calls to a tool's schema.
    """
    notices = []
    inside = folded_system(context).messages
    if "system_messages" not in knobs and any(isinstance(m, SystemMessage) for m in inside):
        what = f"{model}: system messages inside the conversation went out as marked user turns"
        notices.append(Notice("system_message_moved", what))
    if "strict" not in knobs and any(tool.strict for tool in context.tools):
        what = f"{model} does not hold calls to a tool's schema; strict was not sent"
        notices.append(Notice("option_ignored", what))
    return tuple(notices)

"""What one of a provider's APIs takes, and what a call asks of it in vain.

A feature without which the call loses its meaning is refused before a byte is sent; an option
that only tunes the answer is left out and said to be.
"""

from __future__ import annotations

from typing import Protocol

from swink_core.failures.failure import Failure
from swink_core.providers.conversion import folded_system, required_features
from swink_core.providers.source import Parser
from swink_core.vocabulary.events import Notice
from swink_core.vocabulary.messages import Context, SystemMessage
from swink_core.vocabulary.models import Model
from swink_core.vocabulary.options import CacheStrategy, StreamOptions, ThinkingLevel
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

KNOBS = (
    "temperature", "top_p", "top_k", "presence_penalty", "frequency_penalty", "max_tokens", "seed",
    "session_id", "user", "thinking", "parallel_tool_calls", "cache",
)  # fmt: skip
"""Options that tune an answer: a provider without one says so in a notice and goes on."""

PER_MODEL = frozenset({"tools", "images", "documents", "audio", "structured_output", "json"})
"""Features that a provider may have and one of its models may lack."""


class API(Protocol):
    """What one of a provider's endpoints takes and how it answers; see `HTTPProvider`."""

    features: frozenset[str]
    knobs: frozenset[str]
    buffered: bool
    websocket: bool

    def parser(self, model: Model) -> Parser:
        """Make a parser for one response."""


def ignored_options(api: API, model: Model, options: StreamOptions) -> list[str]:
    """Name the tuning options of the call that the API or the model lacks."""
    ignored = [name for name in KNOBS if name not in api.knobs and _is_set(options, name)]
    if model.lacks("thinking") and _is_set(options, "thinking") and "thinking" in api.knobs:
        ignored.append("thinking")
    return ignored


def context_notices(knobs: frozenset[str], model: Model, context: Context) -> tuple[Notice, ...]:
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


def unsupported(api: API, model: Model, context: Context, options: StreamOptions) -> Failure | None:
    """Return the failure of a call that needs what the API or the model lacks."""
    wanted = required_features(context, options, model.provider)
    if options.transport == "buffered" and not api.buffered:
        wanted.add("buffered_transport")
    if options.transport == "websocket" and not api.websocket:
        wanted.add("websocket_transport")
    missing = wanted - api.features
    missing |= {feature for feature in wanted & PER_MODEL if model.lacks(feature)}
    if not missing:
        return None
    feature = min(missing)
    message = f"{model} does not support {feature.replace('_', ' ')}"
    return Failure("request", kind=Kind.UNSUPPORTED, code=feature, message=message)


def _is_set(options: StreamOptions, name: str) -> bool:
    value = getattr(options, name)
    if name == "thinking":
        return value not in (None, ThinkingLevel.OFF, 0)
    if name == "cache":
        return isinstance(value, CacheStrategy) and value.mode != "none"
    return value is not None

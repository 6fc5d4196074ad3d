"""`cohere/<model>`: Cohere's chat API, version 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from swink_core import Classification, Context, Failure, Model, StreamOptions, ThinkingLevel
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    Fitted,
    HTTPProvider,
    Knobs,
    by_tables,
    rule_of,
    sent_options,
    with_extra,
)
from swink_provider_cohere.converter import conversation, loose_tools
from swink_provider_cohere.parser import ChatParser

__all__ = ["CohereProvider"]

WORDINGS = (
    ("the maximum output for this model", Kind.INVALID_REQUEST),  # begins with "too many tokens"
    ("too many tokens", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("api calls / month", Kind.QUOTA_EXHAUSTED),
    ("billing", Kind.QUOTA_EXHAUSTED),
    ("is not supported by the", Kind.MODEL_NOT_FOUND),
)
"""Wordings of error messages, which decide the kind because the API has no error codes.

Source: https://docs.cohere.com/reference/errors
"""

STATUSES = {402: Kind.QUOTA_EXHAUSTED, 498: Kind.AUTH, 499: Kind.CANCELLED, 501: Kind.UNSUPPORTED}

CODES = {"ERROR": Kind.NETWORK, "TIMEOUT": Kind.NETWORK}
"""Finish reasons that are failures of the service."""


def _thinking(model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return the field for thinking, which is enabled by default.

    Source: https://docs.cohere.com/docs/reasoning.
    """
    if (level := options.thinking_level) is None:
        return {}
    if level is ThinkingLevel.OFF:
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled", "token_budget": options.thinking_budget}}


KNOBS: Knobs = {
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "max_tokens": "max_tokens",
    "seed": "seed",
    "thinking": _thinking,
}
"""Maps sampling and output options to fields of the request."""


class CohereProvider(HTTPProvider):
    """The chat API, at Cohere or in a private deployment."""

    features = frozenset(
        {
            "tools", "tool_choice", "stop", "images", "documents", "json", "structured_output",
            "strict",
        }
    )  # fmt: skip
    knobs = KNOBS
    places: ClassVar[Mapping[str, tuple[str, ...]]] = {"stop": ("stop_sequences",)}
    system_marks = ()
    api_name = "v2"
    buffered = True

    def fit(self, model: Model, context: Context, options: StreamOptions) -> Fitted:
        """Return the call, adapted to the API and the model.

        Strict mode is turned off, with a notice, if a tool has no required parameter.
        """
        call = super().fit(model, context, options)
        if names := loose_tools(call.context):
            what = f": strict was not sent, because no parameter is required by {', '.join(names)}"
            strict = [f"tools[{at}].strict" for at, t in enumerate(context.tools) if t.strict]
            call.tell(what, "option_changed", *strict)
        return call

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body; see `conversation`. `extra` may contain any field of the API."""
        thinks = rule_of(model, self).takes.get("thinking") is not False
        fields = {
            **conversation(context, self.name, thinks and options.thinking_budget != 0),
            **sent_options(self.knobs, model, options),
            **_answer(options),
            "model": model.id,
            "stream": options.transport != "buffered",
        }
        return with_extra(options.extra, fields)

    def url(self, model: Model, options: StreamOptions) -> str:
        """Return the URL of `/v2/chat`."""
        return f"{self.base_url(options).removesuffix('/v2')}/v2/chat"

    def parser(self, model: Model) -> ChatParser:
        """Create a parser for one answer."""
        return ChatParser()

    def classify(self, failure: Failure) -> Classification | None:
        """Classify a failure by the error message, because the API has no error codes."""
        return by_tables(failure, CODES, WORDINGS, STATUSES)


def _answer(options: StreamOptions) -> dict[str, Any]:
    named = {
        "stop_sequences": list(options.stop) or None,
        "tool_choice": _TOOL_CHOICES.get(options.tool_choice or ""),
        "response_format": _response_format(options.response_format),
    }
    return {name: value for name, value in named.items() if value is not None}


_TOOL_CHOICES = {"none": "NONE", "required": "REQUIRED"}


def _response_format(asked: Any) -> dict[str, Any] | None:
    if asked is None:
        return None
    schema = {} if isinstance(asked, str) else {"json_schema": asked}
    return {"type": "json_object", **schema}

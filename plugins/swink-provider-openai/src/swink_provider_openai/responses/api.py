"""Create requests for the Responses API, and parsers for its answers.

Rules remove or reject options that only Chat Completions supports (`stop`, `seed`, audio).

Source: OpenAI's API reference, "Create a model response". The service stores nothing unless the
caller sets `store`. Therefore requests enable encrypted reasoning, which the next request sends
back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Context, Model, StreamOptions, ThinkingLevel
from swink_core.providers import Knobs, rule_of, sent_options, with_extra
from swink_provider_openai.dialect import Dialect
from swink_provider_openai.parameters import (
    TOOL_CHOICES,
    effort,
    places_of,
    response_format,
    shared_knobs,
)
from swink_provider_openai.responses.background import is_background
from swink_provider_openai.responses.converter import ResponsesConverter
from swink_provider_openai.responses.parser import ResponsesParser
from swink_provider_openai.terms import REGIONAL, with_terms

__all__ = ["ResponsesAPI"]

FEATURES = frozenset({
    "tools", "tool_choice", "images", "documents", "audio", "json", "structured_output", "stop",
    "extensions", "strict",
})  # fmt: skip

ENCRYPTED = "reasoning.encrypted_content"

PREVIOUS = "previous_response_id"
"""A setting and a request field with this name contain the id of the response to continue."""


class ResponsesAPI:
    """The Responses API, with the differences that a dialect declares."""

    path = "responses"
    api_name = "responses"
    buffered = True
    regional = False

    def __init__(self, provider: str, dialect: Dialect) -> None:
        self._provider = provider
        self._dialect = dialect
        self.websocket = dialect.websocket != "none"
        self.system_marks = dialect.marks if "system_messages" in dialect.adds else None
        self.features = FEATURES | (dialect.adds & {"file_ids", "system_messages"})
        self.places = {
            **places_of(dialect),
            "thinking": ("reasoning",),
            "response_format": ("text", "response_format"),
        }
        self.knobs: Knobs = {
            "temperature": "temperature",
            "top_p": "top_p",
            "max_tokens": "max_output_tokens",
            "seed": "seed",
            "thinking": _reasoning,
            "parallel_tool_calls": "parallel_tool_calls",
            **shared_knobs(dialect, self),
        }

    def convert(self, model: Model, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return the body of the request; options take precedence over fields of `extra`.

        The tools in `extra` are sent in addition to those of the call, because server-side tools
        can only be given in `extra`. The request enables reasoning summaries.
        """
        native = self._conversation(context, options)
        fields = {**native, **self._parameters(model, options)}
        fields["stream"] = options.transport != "buffered"
        return with_extra(options.extra, fields, self._defaults(model, options, fields))

    def _conversation(self, context: Context, options: StreamOptions) -> dict[str, Any]:
        """Return `input`, `instructions` and `tools`."""
        extra = options.extra
        previous = options.settings.get(PREVIOUS) or extra.get(PREVIOUS)
        converter = ResponsesConverter(
            self._provider,
            self._dialect,
            stored=extra.get("store", is_background(options)) is True,
            previous=previous,
            continued=bool(previous or extra.get("conversation")),
        )
        return converter.conversation(context)

    def _defaults(
        self, model: Model, options: StreamOptions, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return default values for the fields `store`, `include` and `reasoning`."""
        # the service must store a background response, to allow polling
        defaults: dict[str, Any] = {"store": is_background(options)}
        if not model.lacks("thinking") and rule_of(model).takes.get("thinking", True):
            defaults["include"] = [ENCRYPTED]
        if "reasoning" in fields and options.thinking_level is not ThinkingLevel.OFF:
            defaults["reasoning"] = {"summary": "auto"}
        return defaults

    def parser(self, model: Model) -> Any:
        """Create a parser for one response."""
        return with_terms(ResponsesParser(), REGIONAL if self.regional else {})

    def _parameters(self, model: Model, options: StreamOptions) -> dict[str, Any]:
        found: dict[str, Any] = {
            "model": model.id,
            **sent_options(self.knobs, model, options),
            "stop": list(options.stop) or None,
            "tool_choice": _tool_choice(options.tool_choice),
            "text": self._text(options),
            PREVIOUS: options.settings.get(PREVIOUS),
            "background": options.settings.get("background"),
        }
        return {name: value for name, value in found.items() if value is not None}

    def _text(self, options: StreamOptions) -> dict[str, Any] | None:
        """Return the field for the format of the answer."""
        named = options.extra.get("text", {})
        named = named.get("format") if isinstance(named, Mapping) else None
        wanted = response_format(options.response_format, self._dialect, named)
        if wanted is None:
            return None
        schema = wanted.pop("json_schema", {})
        return {"format": {**wanted, **schema}}


def _reasoning(model: Model, options: StreamOptions) -> dict[str, Any]:
    word = effort(model, options)
    return {} if word is None else {"reasoning": {"effort": word}}


def _tool_choice(choice: str | None) -> str | dict[str, Any] | None:
    if choice is None or choice in TOOL_CHOICES:
        return choice
    return {"type": "function", "name": choice}

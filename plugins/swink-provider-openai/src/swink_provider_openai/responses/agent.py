"""Perplexity's Agent API: a variant of the Responses API that refuses unknown fields.

Requests therefore contain only the fields that the Agent API supports. `response_format` contains
the answer schema, as in Chat Completions. Results of server-side tools are part of the answer but
are not sent back, because the API has no input items for them. The type of an output item can
change until the item is done: the item of a search starts as a call of a function that the request
does not declare, and finally contains the results.

Source: docs.perplexity.ai, "Agent API" and "Migrate from Sonar"; the vendor's SDK (perplexityai),
types of `responses.create`; github.com/perplexityai/api-platform-developers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Context, Model, StreamOptions
from swink_core.providers import EventWriter
from swink_provider_openai.parameters import named_schema, response_format
from swink_provider_openai.responses.api import FEATURES, ResponsesAPI
from swink_provider_openai.responses.parser import ResponsesParser
from swink_provider_openai.responses.wire import Event

__all__ = ["AgentAPI"]

ITEMS: dict[str, tuple[str, ...]] = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
}
"""The types of input items, with the fields of each type."""

NO_FIELDS = frozenset({"annotations", "detail", "logprobs"})
"""Fields of OpenAI's message parts that this API does not have."""

FOUND = ("_results", "mcp_list_tools", "mcp_call", "reasoning", "tool_search_output")
"""Items whose type ends in one of these (tool results, reasoning) cannot be sent back."""


class AgentAPI(ResponsesAPI):
    """The Agent API, with the differences that a dialect declares."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.features = FEATURES - {"documents", "audio", "stop"}
        self.knobs = {name: field for name, field in self.knobs.items() if name != "seed"}

    def _conversation(self, context: Context, options: StreamOptions) -> dict[str, Any]:
        native = super()._conversation(context, options)
        items: list[dict[str, Any]] = []
        media: list[Any] = []  # media in results, which are sent after them as a user message
        for item in native["input"]:
            if (known := _known(item)) is None:
                continue
            if known.get("type") == "function_call_output":
                known["output"], shown = _said_and_shown(known["output"])
                media += shown
            elif media:
                items.append({"type": "message", "role": "user", "content": media})
                media = []
            items.append(known)
        if media:
            items.append({"type": "message", "role": "user", "content": media})
        return {**native, "input": items}

    def parser(self, model: Model) -> Any:
        """Create a parser for one response."""
        return _AgentParser()

    def _defaults(
        self, model: Model, options: StreamOptions, fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        defaults = super()._defaults(model, options, fields)
        return {"store": defaults["store"]}  # there is no encrypted reasoning to request

    def _parameters(self, model: Model, options: StreamOptions) -> dict[str, Any]:
        found = super()._parameters(model, options)
        if found.pop("text", None) is not None:
            asked = options.response_format
            found["response_format"] = response_format(asked, self._dialect, named_schema(options))
        if isinstance(choice := found.get("tool_choice"), dict):
            found["tool_choice"] = {"name": choice["name"]}
        return found


class _AgentParser(ResponsesParser):
    def __init__(self) -> None:
        super().__init__()
        self._handlers["response.cancelled"] = self._ended

    def _item_added(self, event: Event, out: EventWriter) -> None:
        event.item = None
        super()._item_added(event, out)


def _known(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return an item whose type is in `ITEMS`, without the fields that the API does not support.

    Return `None` for results of server-side tools and for reasoning. Items of other types come from
    the caller and are returned unchanged.
    """
    kind = item.get("type") or ("message" if "role" in item else "")
    if kind not in ITEMS:
        return None if kind.endswith(FOUND) else item
    known = {"type": kind, **{name: item[name] for name in ITEMS[kind]}}
    if kind == "message" and not isinstance(said := item["content"], str):
        spoken = item["role"] == "assistant"
        known["content"] = "".join(map(_words, said)) if spoken else [*map(_part, said)]
    return known


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name not in NO_FIELDS}


def _words(part: dict[str, Any]) -> str:
    """Return the text or the refusal in a part of an answer."""
    return "".join(str(part[name]) for name in ("refusal", "text") if name in part)


def _said_and_shown(output: str | list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of a tool result, and a list of the other parts, such as images."""
    if isinstance(output, str):
        return output, []
    shown = [_part(part) for part in output if part.keys() != {"type", "text"}]
    return "\n".join(p["text"] for p in output if p.keys() == {"type", "text"}), shown

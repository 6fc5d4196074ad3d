"""Options as fields of the request: https://platform.claude.com/docs/en/api/messages/create.

What a model does not take of them has been left out or changed before, by the rules of models.toml.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions
from swink_core.providers import rule_of, unsupported
from swink_provider_anthropic import claude
from swink_provider_anthropic.schemas import structured

__all__ = ["PLACES", "parameters"]

DEFAULT_MAX_TOKENS = 4096

PLACES = {
    "thinking": ("thinking", "output_config.effort"),
    "response_format": ("output_config.format",),
    "stop": ("stop_sequences",),
    "parallel_tool_calls": ("tool_choice",),
    "user": ("metadata.user_id",),
    "session_id": ("metadata.user_id",),
}
"""The fields in which options go out that have another name there."""

CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def parameters(model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return fields of the request.

    Raises ProviderFailure (`unsupported`) for a stop sequence that the API refuses.
    """
    rule = rule_of(model)
    how, effort = claude.thinking(options, rule.efforts)
    most = (model.info.max_output if model.info else None) or rule.most.get("max_tokens")
    room = (how or {}).get("budget_tokens", 0) + DEFAULT_MAX_TOKENS
    fields: dict[str, Any] = {
        "max_tokens": options.max_tokens or options.extra.get("max_tokens") or most or room,
        "tool_choice": _tool_choice(options),
        "thinking": how,
        "output_config": {"effort": effort} if effort else None,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "stop_sequences": _stops(options) or None,
    }
    body = {name: value for name, value in fields.items() if value is not None}
    if isinstance(options.response_format, Mapping):
        form = {"type": "json_schema", "schema": structured(options)}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    if (user := options.user if options.user is not None else options.session_id) is not None:
        body["metadata"] = {"user_id": user}
    return body


def _stops(options: StreamOptions) -> list[str]:
    if options.rules and not all(stop.strip() for stop in options.stop):
        raise unsupported("stop", "no stop sequence may be white space alone")
    return list(options.stop)


def _tool_choice(options: StreamOptions) -> dict[str, Any] | None:
    if options.tool_choice is None and options.parallel_tool_calls is None:
        return None
    name = options.tool_choice or "auto"
    choice: dict[str, Any] = {"type": CHOICES.get(name, "tool")}
    if choice["type"] == "tool":
        choice["name"] = name
    if options.parallel_tool_calls is not None and name != "none":
        choice["disable_parallel_tool_use"] = not options.parallel_tool_calls
    return choice

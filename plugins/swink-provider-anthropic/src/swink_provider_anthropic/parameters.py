"""Convert options to fields of the request.

Source: https://platform.claude.com/docs/en/api/messages/create.

The rules in models.toml have already removed or changed the options that the model does not
support.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions
from swink_core.providers import Knobs, rule_of, sent_options
from swink_provider_anthropic import claude
from swink_provider_anthropic.schemas import structured

__all__ = ["KNOBS", "PLACES", "parameters"]

DEFAULT_MAX_TOKENS = 4096

PLACES = {
    "thinking": ("thinking", "output_config.effort"),
    "response_format": ("output_config.format",),
    "stop": ("stop_sequences",),
    "parallel_tool_calls": ("tool_choice",),
    "user": ("metadata.user_id",),
    "session_id": ("metadata.user_id",),
}
"""Maps options to their request fields, for options that a function in `KNOBS` converts.

For other options, `KNOBS` itself names the field.
"""

CHOICES = {"auto": "auto", "required": "any", "none": "none"}


def parameters(knobs: Knobs, model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return the fields of the request for the options."""
    body = sent_options(knobs, model, options)
    if options.stop:
        body["stop_sequences"] = list(options.stop)
    if isinstance(options.response_format, Mapping):
        form = {"type": "json_schema", "schema": structured(options)}
        body["output_config"] = {**body.get("output_config", {}), "format": form}
    return body


def _max_tokens(model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return the token limit, which every request must have.

    The field in `extra` may be 0, which only warms the cache.
    """
    limit = options.max_tokens or options.extra.get("max_tokens")
    if limit is not None:
        return {"max_tokens": limit}
    rule = rule_of(model)
    how, _ = claude.thinking(options, rule.efforts)
    most = (model.info.max_output if model.info else None) or rule.most.get("max_tokens")
    room = (how or {}).get("budget_tokens", 0) + DEFAULT_MAX_TOKENS
    return {"max_tokens": most or room}


def _thinking(model: Model, options: StreamOptions) -> dict[str, Any]:
    how, effort = claude.thinking(options, rule_of(model).efforts)
    fields: dict[str, Any] = {"thinking": how} if how is not None else {}
    return {**fields, "output_config": {"effort": effort}} if effort else fields


def _user(model: Model, options: StreamOptions) -> dict[str, Any]:
    user = options.user if options.user is not None else options.session_id
    return {} if user is None else {"metadata": {"user_id": user}}


def _tool_choice(model: Model, options: StreamOptions) -> dict[str, Any]:
    if options.tool_choice is None and options.parallel_tool_calls is None:
        return {}
    name = options.tool_choice or "auto"
    choice: dict[str, Any] = {"type": CHOICES.get(name, "tool")}
    if choice["type"] == "tool":
        choice["name"] = name
    if options.parallel_tool_calls is not None and name != "none":
        choice["disable_parallel_tool_use"] = not options.parallel_tool_calls
    return {"tool_choice": choice}


KNOBS: Knobs = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": _max_tokens,
    "session_id": _user,
    "user": _user,
    "thinking": _thinking,
    "parallel_tool_calls": _tool_choice,
    "cache": None,
}
"""Maps options to fields of the request.

For the option `cache`, the provider's `convert` adds cache marks to the conversation.
"""

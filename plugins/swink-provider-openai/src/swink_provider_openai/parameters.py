"""The body of a request beside its conversation. Source: "Create chat completion"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel
from swink_provider_openai.dialect import Dialect

__all__ = ["TOOL_CHOICES", "effort", "keeps_long", "parameters", "response_format"]

LONG_CACHE = 3600
"""Seconds beyond which a prompt is asked to be kept for a day; by itself it stays for minutes."""

TOOL_CHOICES = ("auto", "none", "required")


def parameters(model: Model, options: StreamOptions, dialect: Dialect) -> dict[str, Any]:
    """Return the fields of the request that options stand for, without `extra`."""
    found: dict[str, Any] = {
        "model": model.id,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "top_k": options.top_k if "top_k" in dialect.adds else None,
        "presence_penalty": options.presence_penalty,
        "frequency_penalty": options.frequency_penalty,
        dialect.max_tokens: options.max_tokens,
        "stop": list(options.stop) or None,
        "seed": options.seed,
        "parallel_tool_calls": options.parallel_tool_calls,
        "tool_choice": _tool_choice(options.tool_choice),
        "response_format": response_format(options.response_format, dialect),
        **_thinking(model, options, dialect),
    }
    if dialect.user is not None:
        found[dialect.user] = options.user
    if dialect.cache_key is not None:
        found[dialect.cache_key] = options.session_id
        if keeps_long(options):
            found["prompt_cache_retention"] = "24h"
    return {k: v for k, v in found.items() if v is not None and k not in dialect.lacks}


def keeps_long(options: StreamOptions) -> bool:
    """Tell whether the prompt is to stay in the cache for longer than it does anyway."""
    return options.cache is not None and (options.cache.ttl or 0) > LONG_CACHE


def effort(model: Model, options: StreamOptions, dialect: Dialect) -> str | None:
    """Return the model's word for how hard to think; `None` where there is none.

    A model's own words (`extra.efforts` in the catalogue) come before its service's.
    """
    level = options.thinking_level
    if level is None or model.lacks("thinking"):
        return None
    own = model.info.extra.get("efforts", {}) if model.info is not None else {}
    word: str | None = {**dialect.efforts, **own}.get(level)
    return word


def _thinking(model: Model, options: StreamOptions, dialect: Dialect) -> dict[str, Any]:
    if options.thinking is None or model.lacks("thinking") or "thinking" in dialect.lacks:
        return {}
    word = effort(model, options, dialect)
    on = options.thinking_level is not ThinkingLevel.OFF
    match dialect.thinking:
        case "reasoning":
            budget = isinstance(options.thinking, int) and on
            return {"reasoning": {"max_tokens": options.thinking} if budget else {"effort": word}}
        case "switch":
            switch = {"type": "enabled" if on else "disabled"}
            return {"thinking": switch, "reasoning_effort": word}
        case "template":
            return {"chat_template_kwargs": {"enable_thinking": on}, "reasoning_effort": word}
    return {"reasoning_effort": word}


def _tool_choice(choice: str | None) -> str | dict[str, Any] | None:
    if choice is None or choice in TOOL_CHOICES:
        return choice
    return {"type": "function", "function": {"name": choice}}


def response_format(
    wanted: str | Mapping[str, Any] | None, dialect: Dialect
) -> dict[str, Any] | None:
    """Return the field of that name; a schema keeps strict mode's rules or is lax."""
    if wanted is None:
        return None
    if isinstance(wanted, str):
        if dialect.json_object:
            return {"type": "json_object"}
        wanted = {"type": "object"}
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", str(wanted.get("title") or "answer"))[:64]
    schema: dict[str, Any] = {"name": name, "schema": dict(wanted)}
    if _is_strict(wanted):
        schema["strict"] = True
    return {"type": "json_schema", "json_schema": schema}


def _is_strict(schema: Any) -> bool:
    """Tell whether a schema keeps to what OpenAI's strict mode asks of every object.

    Source: "Structured outputs": all fields are required and no others are allowed.
    """
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    fields = schema.get("properties")
    if schema.get("type") == "object" or isinstance(fields, Mapping):
        names = set(fields or ())
        if schema.get("additionalProperties") is not False or names - set(
            schema.get("required", ())
        ):
            return False
    return all(map(_is_strict, schema.values()))

"""The body of a request beside its conversation. Source: "Create chat completion"."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel
from swink_core.providers import API, TUNING, Knobs, rule_of, sent_options
from swink_provider_openai.dialect import EFFORTS, Dialect

__all__ = [
    "KEPT_BY",
    "TOOL_CHOICES",
    "chat_knobs",
    "effort",
    "is_strict",
    "kept",
    "parameters",
    "places_of",
    "response_format",
    "shared_knobs",
]

LONG_CACHE = 3600
"""Cache lifetimes above this many seconds request retention for a day; the default is minutes."""

SHORT_CACHE = 1800
"""Seconds for which newer models keep a prompt at least."""

NOT_STRICT = frozenset({
    "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    "patternProperties",
})  # fmt: skip
"""Keywords that strict mode does not know."""

KEPT_BY = "prompt_cache_key"
"""The cache key of services that support longer prompt cache retention."""

THINKING_TYPES = ("enabled", "adaptive", "disabled")
"""Values that turn thinking on or off instead of setting an effort."""

TOOL_CHOICES = ("auto", "none", "required")


def parameters(
    knobs: Knobs, model: Model, options: StreamOptions, dialect: Dialect
) -> dict[str, Any]:
    """Return the fields of the request that options stand for, without `extra`."""
    found: dict[str, Any] = {
        "model": model.id,
        **sent_options(knobs, model, options),
        "stop": list(options.stop) or None,
        "tool_choice": _tool_choice(options.tool_choice),
        "response_format": response_format(options.response_format, dialect, _form(options)),
    }
    return {name: value for name, value in found.items() if value is not None}


def chat_knobs(dialect: Dialect) -> Knobs:
    """Map the options that tune an answer to fields of Chat Completions."""
    return {
        "temperature": "temperature",
        "top_p": "top_p",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "max_tokens": dialect.max_tokens,
        "seed": dialect.seed,
        "thinking": partial(_thinking, dialect),
        "parallel_tool_calls": "parallel_tool_calls",
        **{name: name for name in TUNING if name in dialect.adds},
        **shared_knobs(dialect),
    }


def shared_knobs(dialect: Dialect, api: API | None = None) -> Knobs:
    """Map the options for which the dialect has a field, whichever the API.

    `api` is the one whose rules count; `None`: those of every API.
    """
    knobs: Knobs = {}
    if dialect.cache_key is not None:
        knobs = {**knobs, "session_id": dialect.cache_key}
    if dialect.user is not None or dialect.gateway:
        knobs = {**knobs, "user": partial(_user, dialect)}
    if dialect.cache_key is not None or dialect.gateway:
        knobs = {**knobs, "cache": partial(_cache, dialect, api)}
    return knobs


def places_of(dialect: Dialect) -> dict[str, tuple[str, ...]]:
    """Return the fields of options that functions convert."""
    return {
        "thinking": (
            "reasoning", "reasoning_effort", "thinking", "thinking_budget", "enable_thinking",
            dialect.template,
        ),
        "user": (dialect.user or "user", "providerOptions.gateway.user"),
        "cache": (
            "prompt_cache_retention", "prompt_cache_options", "providerOptions.gateway.caching",
        ),
    }  # fmt: skip


def gateway_options(options: StreamOptions, dialect: Dialect) -> dict[str, Any]:
    """Return the field for the gateway's options.

    Source: vercel.com/docs/ai-gateway, "Automatic caching"; @ai-sdk/gateway, its provider options.
    """
    cached = options.cache is not None and options.cache.mode == "auto"
    named = {"caching": "auto" if cached else None, "user": options.user}
    said = {name: value for name, value in named.items() if value is not None}
    return {"providerOptions": {"gateway": said}} if said and dialect.gateway else {}


def _user(dialect: Dialect, model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return a name of at least as many characters as the API wants; the same one always becomes
    the same."""
    name = options.user
    if name is None:
        return {}
    fields = gateway_options(options, dialect)
    if dialect.user is not None:
        if len(name) < dialect.shortest_user:
            name = f"{name}_{hashlib.sha256(name.encode()).hexdigest()[:12]}"
        fields[dialect.user] = name
    return fields


def _cache(
    dialect: Dialect, api: API | None, model: Model, options: StreamOptions
) -> dict[str, Any]:
    facts = rule_of(model, api).facts
    return {**kept(facts, options, dialect), **gateway_options(options, dialect)}


def kept(facts: Mapping[str, Any], options: StreamOptions, dialect: Dialect) -> dict[str, Any]:
    """Return the field that asks to keep the prompt in the cache for longer than it stays anyway.

    Newer models keep it for half an hour, or for as long as the fact `cache_ttl` says (empty: no
    longer). Source: OpenAI's guide "Prompt caching".
    """
    ttl = (options.cache.ttl if options.cache is not None else None) or 0
    if dialect.cache_key != KEPT_BY:
        return {}
    longest = facts.get("cache_ttl")
    if longest is None:
        return {"prompt_cache_retention": "24h"} if ttl > LONG_CACHE else {}
    return {"prompt_cache_options": {"ttl": longest}} if longest and ttl > SHORT_CACHE else {}


def effort(model: Model, options: StreamOptions) -> str | None:
    """Return the reasoning effort in the model's terms, or `None` if the call sets none."""
    level = options.thinking_level
    return None if level is None else rule_of(model).efforts.get(level, EFFORTS[level])


def _thinking(dialect: Dialect, model: Model, options: StreamOptions) -> dict[str, Any]:
    if options.thinking is None:
        return {}
    word = effort(model, options)
    on = options.thinking_level is not ThinkingLevel.OFF
    switch: dict[str, Any]
    match dialect.thinking:
        case "reasoning":
            counted = isinstance(options.thinking, int) and on
            return {"reasoning": {"max_tokens": options.thinking} if counted else {"effort": word}}
        case "enabled" if not on:
            return {"reasoning": {"enabled": False}}
        case "budget":
            budget = {"thinking_budget": options.thinking_budget} if on else {}
            return {"enable_thinking": on, **budget}
        case "type" if word in THINKING_TYPES:
            return {"thinking": {"type": word}}
        case "switch":
            switch = {"thinking": {"type": "enabled" if on else "disabled"}}
        case "template":
            switch = {dialect.template: {"enable_thinking": on}}
        case _:
            return {"reasoning_effort": word}
    return {**switch, "reasoning_effort": word} if on else switch


def _tool_choice(choice: str | None) -> str | dict[str, Any] | None:
    if choice is None or choice in TOOL_CHOICES:
        return choice
    return {"type": "function", "function": {"name": choice}}


def _form(options: StreamOptions) -> Any:
    """Return the `json_schema` in the call's `extra`, which may contain a name."""
    form = options.extra.get("response_format")
    return form.get("json_schema") if isinstance(form, Mapping) else None


def response_format(
    wanted: str | Mapping[str, Any] | None, dialect: Dialect, named: Any = None
) -> dict[str, Any] | None:
    """Return the field of that name; a schema keeps strict mode's rules or is lax.

    The schema's name is that of `named`, the form in the call's `extra`, or else its title.
    """
    if wanted is None:
        return None
    if isinstance(wanted, str):
        if dialect.json_object:
            return {"type": "json_object"}
        wanted = {"type": "object"}
    title = named.get("name") if isinstance(named, Mapping) else None
    title = title or wanted.get("title") or "answer"
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", str(title))[:64]
    schema: dict[str, Any] = {"name": name, "schema": dict(wanted)}
    if is_strict(wanted):
        schema["strict"] = True
    return {"type": "json_schema", "json_schema": schema}


def is_strict(schema: Any) -> bool:
    """Return whether a schema meets the requirements of OpenAI's strict mode.

    Source: "Structured outputs": the root is an object, all fields of objects are required and
    no others are allowed, and some keywords are not known.
    """
    return isinstance(schema, Mapping) and schema.get("type") == "object" and _is_strict(schema)


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    fields = schema.get("properties")
    if schema.get("type") == "object" or isinstance(fields, Mapping):
        required = schema.get("required")
        told = required if isinstance(required, list | tuple) else ()
        named = {name for name in told if isinstance(name, str)}
        if schema.get("additionalProperties") is not False or not isinstance(fields or {}, Mapping):
            return False
        if set(fields or ()).difference(named):
            return False
    if isinstance(fields, Mapping):  # whose names are not keywords
        schema = {**schema, "properties": list(fields.values())}
    return not NOT_STRICT & schema.keys() and all(map(_is_strict, schema.values()))

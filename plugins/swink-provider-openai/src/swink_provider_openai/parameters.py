"""Convert options to fields of the request.

Source: OpenAI's API reference, "Create chat completion".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from swink_core import Model, StreamOptions, ThinkingLevel
from swink_core.providers import API, TUNING, Knobs, rule_of, sent_options
from swink_provider_openai.dialect import EFFORTS, Dialect
from swink_provider_openai.schemas import DATA, NAMED

__all__ = [
    "TOOL_CHOICES",
    "chat_knobs",
    "effort",
    "is_strict",
    "kept",
    "named_schema",
    "parameters",
    "places_of",
    "response_format",
    "shared_knobs",
]

LONG_CACHE = 3600
"""If the caller sets a cache lifetime above this many seconds, the request asks for a day.

The default lifetime is a few minutes.
"""

SHORT_CACHE = 1800
"""The minimum number of seconds for which newer models cache a prompt."""

NOT_STRICT = frozenset({
    "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas",
    "patternProperties", "minProperties", "maxProperties", "oneOf", "prefixItems", "uniqueItems",
})  # fmt: skip
"""Keywords of JSON schemas that strict mode does not support.

Sources of the last three: github.com/openai/openai-node/issues/1709,
github.com/pydantic/pydantic-ai/pull/7333, github.com/mastra-ai/mastra/issues/23321.
"""

LOOKS_AROUND = re.compile(r"\(\?<?[=!]")
"""Finds a look-around assertion in a pattern, which strict mode does not support either."""

KEPT_BY = "prompt_cache_key"
"""The value of `Dialect.cache_key` for services that support longer prompt caching."""

THINKING_TYPES = ("enabled", "adaptive", "disabled")
"""The values that are sent as `thinking.type`.

A model's rules map each thinking level to one of these values or to an effort.
"""

TOOL_CHOICES = ("auto", "none", "required")


def parameters(
    knobs: Knobs, model: Model, options: StreamOptions, dialect: Dialect
) -> dict[str, Any]:
    """Return the request fields for all options except `extra`."""
    found: dict[str, Any] = {
        "model": model.id,
        **sent_options(knobs, model, options),
        "stop": list(options.stop) or None,
        "tool_choice": _tool_choice(options.tool_choice),
        "response_format": response_format(options.response_format, dialect, named_schema(options)),
    }
    return {name: value for name, value in found.items() if value is not None}


def chat_knobs(dialect: Dialect) -> Knobs:
    """Return the fields of Chat Completions for the sampling and output options."""
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
    """Return the fields for the session id, the end user and the cache, if the dialect has them.

    `api` selects the API whose rules apply; `None` selects the rules of both APIs.
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
    """Return the request fields that each option may set, for options that this module converts."""
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
    """Return the field with the options of Vercel's AI Gateway.

    Source: vercel.com/docs/ai-gateway, "Automatic caching"; @ai-sdk/gateway, its provider options.
    """
    cached = options.cache is not None and options.cache.mode == "auto"
    named = {"caching": "auto" if cached else None, "user": options.user}
    said = {name: value for name, value in named.items() if value is not None}
    return {"providerOptions": {"gateway": said}} if said and dialect.gateway else {}


def _user(dialect: Dialect, model: Model, options: StreamOptions) -> dict[str, Any]:
    """Return the field with the end user's name.

    If the name is shorter than the API requires, it is extended, always in the same way.
    """
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
    """Return the field that requests caching of the prompt for longer than the default lifetime.

    Newer models cache for half an hour by default. For such a model, `cache_ttl` in `facts` (from
    the model's rules) is the longer lifetime that it supports; it is an empty string if the model
    supports none. Source: OpenAI's guide "Prompt caching".
    """
    ttl = (options.cache.ttl if options.cache is not None else None) or 0
    if dialect.cache_key != KEPT_BY:
        return {}
    longest = facts.get("cache_ttl")
    if longest is None:
        return {"prompt_cache_retention": "24h"} if ttl > LONG_CACHE else {}
    return {"prompt_cache_options": {"ttl": longest}} if longest and ttl > SHORT_CACHE else {}


def effort(model: Model, options: StreamOptions) -> str | None:
    """Return the model's own name for the reasoning effort; `None` if the call sets no effort."""
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


def named_schema(options: StreamOptions) -> Any:
    """Return `response_format.json_schema` of the call's `extra`; it may contain a schema name."""
    form = options.extra.get("response_format")
    return form.get("json_schema") if isinstance(form, Mapping) else None


def response_format(
    wanted: str | Mapping[str, Any] | None, dialect: Dialect, named: Any = None
) -> dict[str, Any] | None:
    """Return the field `response_format`, in strict mode if the schema allows it.

    `named` is the field `json_schema` of the call's `extra`. The schema's name is the `name` in
    `named`, or else the title of the schema.
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

    Source: "Structured outputs": the root is an object, all fields of objects are required, no
    other fields are allowed, and some keywords are not supported. Every schema must have a type,
    so a schema that permits any value does not meet the requirements
    (github.com/pydantic/pydantic-ai/pull/4474). A `$ref` must have no keywords beside it, and
    patterns must not contain look-around assertions.
    """
    return isinstance(schema, Mapping) and schema.get("type") == "object" and _is_strict(schema)


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.keys().isdisjoint(("type", "anyOf", "$ref")):
        return False
    if schema.get("type") == "array" and "items" not in schema:
        return False
    if "$ref" in schema and len(schema) > 1:
        return False
    if LOOKS_AROUND.search(str(schema.get("pattern", ""))):
        return False
    fields = schema.get("properties")
    if schema.get("type") == "object" or isinstance(fields, Mapping):
        required = schema.get("required")
        told = required if isinstance(required, list | tuple) else ()
        named = {name for name in told if isinstance(name, str)}
        if schema.get("additionalProperties") is not False or not isinstance(fields or {}, Mapping):
            return False
        if set(fields or ()).difference(named):
            return False
    parts = [
        [*value.values()] if name in NAMED and isinstance(value, Mapping) else value
        for name, value in schema.items()
        if name not in DATA
    ]
    return not NOT_STRICT & schema.keys() and all(map(_is_strict, parts))

"""JSON schemas as Claude takes them, whichever API it is asked through.

https://platform.claude.com/docs/en/build-with-claude/structured-outputs: objects are closed, and
limits of numbers, texts and lists are refused. A limit is told in words instead, as the vendor's
own SDK does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from swink_core import StreamOptions
from swink_core.providers import closed_schema

__all__ = ["limits_in_words", "structured"]

LIMITS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties",
)  # fmt: skip
_OF_NAMES = ("properties", "$defs", "definitions")
_VALUES = ("enum", "const", "default", "examples")


def structured(options: StreamOptions) -> Any:
    """Return the schema of `response_format` as it is sent."""
    schema = closed_schema(options.response_format)
    return _in_words(schema, set()) if options.rules else schema


def limits_in_words(options: StreamOptions) -> list[str]:
    """Say which limits of `response_format` are told in words."""
    found: set[str] = set()
    if options.rules and isinstance(options.response_format, Mapping):
        _in_words(options.response_format, found)
    names = ", ".join(sorted(found))
    return [f"response_format: {names} as words of a description"] if names else []


def _in_words(node: Any, found: set[str]) -> Any:
    if isinstance(node, list):
        return [_in_words(item, found) for item in node]
    if not isinstance(node, Mapping):
        return node
    limits = {key: value for key, value in node.items() if _is_refused(key, value)}
    found.update(limits)
    kept = {
        key: _of_names(value, found)
        if key in _OF_NAMES
        else value
        if key in _VALUES
        else _in_words(value, found)
        for key, value in node.items()
        if key not in limits
    }
    if limits:
        words = "; ".join(f"{key}: {json.dumps(value)}" for key, value in limits.items())
        kept["description"] = "\n\n".join(filter(None, [kept.get("description"), f"{{{words}}}"]))
    return kept


def _of_names(named: Any, found: set[str]) -> Any:
    if not isinstance(named, Mapping):
        return named
    return {name: _in_words(value, found) for name, value in named.items()}


def _is_refused(key: str, value: Any) -> bool:
    return key in LIMITS and not (key == "minItems" and value in (0, 1))

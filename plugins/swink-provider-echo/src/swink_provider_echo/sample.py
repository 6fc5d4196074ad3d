"""JSON data that fits a JSON schema, made from a text, the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["sample"]

DEEPEST = 6
"""Levels of a schema that are filled. A schema may recur: deeper, only what is required is, and
at twice this depth nothing any more."""


def sample(schema: Mapping[str, Any], text: str) -> Any:
    """Return data for a schema: strings are `text`, numbers the count of its words.

    `const`, `enum`, `default`, `anyOf`, `oneOf`, `allOf` and local `$ref`s are followed; bounds
    and patterns are not (https://json-schema.org/draft/2020-12/json-schema-validation).
    """
    return _value(schema, text, schema, 0)


def _value(schema: Any, text: str, root: Mapping[str, Any], depth: int) -> Any:
    if not isinstance(schema, Mapping) or depth > 2 * DEEPEST:
        return text  # `true` allows anything
    if "$ref" in schema:
        return _value(_resolve(schema["$ref"], root), text, root, depth + 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "anyOf", "oneOf"):
        if schema.get(key):
            first = schema[key][0]
            return first if key == "enum" else _value(first, text, root, depth + 1)
    if schema.get("allOf"):
        parts = [_value(part, text, root, depth + 1) for part in schema["allOf"]]
        objects = [part for part in parts if isinstance(part, dict)]
        return {k: v for part in objects for k, v in part.items()} if objects else parts[0]
    return _typed(schema, text, root, depth)


def _typed(schema: Mapping[str, Any], text: str, root: Mapping[str, Any], depth: int) -> Any:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        required = schema.get("required", ())
        return {
            name: _value(part, text, root, depth + 1)
            for name, part in schema.get("properties", {}).items()
            if depth < DEEPEST or name in required
        }
    if kind == "array":
        return [_value(schema.get("items", True), text, root, depth + 1)] if depth < DEEPEST else []
    if kind in ("integer", "number"):
        return len(text.split())
    return {"boolean": True, "null": None}.get(kind, text)


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    target: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name, {}) if isinstance(target, Mapping) else {}
    return target

"""JSON schemas in the forms that APIs want."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def closed_schema(schema: Any) -> Any:
    """Return a JSON schema whose every object says that it has no other properties.

    For APIs that take no others. An object that says what it thinks of them is left alone.
    """
    if isinstance(schema, list):
        return [closed_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {name: closed_schema(value) for name, value in schema.items()}
    kind = closed.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        closed.setdefault("additionalProperties", False)
    return closed


def joined_root(schema: Mapping[str, Any], refused: Collection[str]) -> dict[str, Any]:
    """Return the schema of an object without the keywords that an API refuses at its root.

    What alternatives there have of properties joins those of the root, so that all of them may
    still be said; what held them together is lost.
    """
    root = {name: value for name, value in schema.items() if name not in refused}
    fields: dict[str, Any] = {}
    for keyword in {"allOf", "anyOf", "oneOf"}.intersection(refused):
        for part in (_referred(each, schema) for each in schema.get(keyword, ())):
            for name, value in part.get("properties", {}).items():
                known = fields.get(name, value)
                fields[name] = value if known == value else {"anyOf": [known, value]}
            if keyword == "allOf":
                root["required"] = [*root.get("required", ()), *part.get("required", ())]
    if fields:
        root["properties"] = {**fields, **root.get("properties", {})}
    return {**root, "type": "object"}


def _referred(part: Any, schema: Mapping[str, Any]) -> Any:
    """Return what a part of a schema is, which may be a reference to the schema's definitions."""
    reference = part.get("$ref", "") if isinstance(part, Mapping) else ""
    for name in reference.split("/")[1:]:
        part = schema = schema.get(name, {})
    return part if isinstance(part, Mapping) else {}

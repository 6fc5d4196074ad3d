"""Convert Google's schemas to JSON schemas: https://ai.google.dev/api/caching#Schema.

The source format is based on OpenAPI 3.0: types are in upper case, with `nullable` next to them;
counts may be strings; a list contains the order of the properties. Names may be written in camel
case or snake case.
"""

from __future__ import annotations

from typing import Any

__all__ = ["camel", "json_schema"]

_COUNTS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
)
_UNTYPED = "TYPE_UNSPECIFIED"


def camel(name: str) -> str:
    """Return the JSON name of a protocol buffers field."""
    first, *rest = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in rest) if first else name


def json_schema(schema: Any) -> Any:
    """Convert a schema to a JSON schema; other values stay unchanged."""
    if not isinstance(schema, dict):
        return schema
    given = {camel(name): value for name, value in schema.items() if value is not None}
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name == "type" and isinstance(value, str):
            if value != _UNTYPED:
                made["type"] = value.lower()
        elif name == "items":
            made[name] = json_schema(value)
        elif name in ("anyOf", "prefixItems") and isinstance(value, list):
            made[name] = [json_schema(one) for one in value]
        elif name == "properties" and isinstance(value, dict):
            order = given.get("propertyOrdering")
            made[name] = {key: json_schema(value[key]) for key in _ordered(value, order)}
        elif name in _COUNTS and isinstance(value, str) and value.isdecimal():
            made[name] = int(value)
        elif name == "example":
            made["examples"] = [value]
        elif (name, value) != ("format", "enum") and name not in ("nullable", "propertyOrdering"):
            made[name] = value
    return _nullable(made) if given.get("nullable") is True else made


def _ordered(properties: dict[str, Any], order: Any) -> list[str]:
    names = order if isinstance(order, list) else []
    first = [name for name in names if isinstance(name, str) and name in properties]
    return list(dict.fromkeys([*first, *properties]))


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if "type" not in schema:
        return schema
    schema = {**schema, "type": [schema["type"], "null"]}
    if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
        schema["enum"] = [*schema["enum"], None]
    return schema

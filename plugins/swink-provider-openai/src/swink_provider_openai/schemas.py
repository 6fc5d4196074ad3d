"""Convert JSON schemas to the form that OpenAI accepts, with the same meaning.

The root of a schema must be an object schema. It may not be a reference, although pydantic writes
one for a recursive type. Every array must have `items`. Source: OpenAI's guide "Structured
outputs". Strict mode rejects `oneOf` (github.com/openai/openai-node/issues/1709) and a `$ref` with
keywords beside it, such as the `description` that pydantic writes there; it accepts keywords beside
an `anyOf` (github.com/pydantic/pydantic-ai, `OpenAIJsonSchemaTransformer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from swink_core.providers import inlined_schema, plain_tuple, plain_union

__all__ = ["plain_schema"]


DATA = frozenset({"const", "default", "enum", "examples"})
NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


def plain_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without a reference at its root and with `items` in every array.

    `oneOf` becomes `anyOf`. If all items of a fixed-length array have the same schema, `items`
    replaces `prefixItems`. A reference with keywords beside it becomes the only schema of an
    `anyOf`, so that these keywords are kept.
    """
    if "$ref" in schema:
        plain = inlined_schema(schema)
        schema = _root(schema) if "$ref" in plain else plain
        if "$ref" in schema:
            return {**schema}
    whole: dict[str, Any] = _plain(schema)
    return whole


def _root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace a reference at the root of a schema by the definition to which it points.

    The other definitions are kept. A reference to a missing definition stays, so that the API
    reports it.
    """
    part: Any = schema
    for step in str(schema["$ref"]).split("/")[1:]:
        part = part.get(step) if isinstance(part, Mapping) else None
    if part is schema or not isinstance(part, Mapping):
        return {**schema}
    beside = {name: value for name, value in schema.items() if name != "$ref"}
    return {**part, **beside}


def _plain(node: Any, named: bool = False) -> Any:
    """Convert `node` and all schemas in it.

    `named` is true if `node` itself is not a schema but maps names to schemas, like `properties`.
    """
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    whole = {
        name: value if name in DATA and not named else _plain(value, not named and name in NAMED)
        for name, value in node.items()
    }
    if named:
        return whole
    whole = plain_tuple(plain_union(whole))
    if "$ref" in whole and len(whole) > 1 and "anyOf" not in whole:
        whole["anyOf"] = [{"$ref": whole.pop("$ref")}]
    if whole.get("type") == "array" and "prefixItems" not in whole:
        whole.setdefault("items", {})
    return whole

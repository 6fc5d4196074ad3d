"""JSON schemas for models that read no references."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["inlined_schema"]

MOST_NODES = 10_000
"""Of a schema written out; a small one can refer to itself by halves without end."""

_DEFINITIONS = ("$defs", "definitions")


def inlined_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON schema with what its references name in their place.

    One that is recursive keeps its references, as does one that would grow beyond all measure.
    """
    left = MOST_NODES

    def written_out(node: Any, within: tuple[str, ...]) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            raise RecursionError
        if isinstance(node, list):
            return [written_out(item, within) for item in node]
        if not isinstance(node, Mapping):
            return node
        name = str(node.get("$ref"))
        named = _named(schema, name)
        if named is None:
            return {key: written_out(value, within) for key, value in node.items()}
        if name in within:
            raise RecursionError
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return {**written_out(named, (*within, name)), **written_out(beside, within)}

    root = {key: value for key, value in schema.items() if key not in _DEFINITIONS}
    try:
        whole: dict[str, Any] = written_out(root, ())
    except RecursionError:
        return dict(schema)
    return whole


def _named(schema: Any, reference: str) -> Mapping[str, Any] | None:
    """Return the part of a schema that a reference within it names."""
    part = schema if reference.startswith("#/") else None
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) else None

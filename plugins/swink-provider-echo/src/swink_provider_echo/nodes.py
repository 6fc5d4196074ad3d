"""Read the nodes of a JSON schema, and merge several nodes into one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = [
    "NoSample", "Node", "is_of", "item", "joined", "kind_of", "listed", "nothing",
    "property_of", "resolved", "size",
]  # fmt: skip

Node: TypeAlias = Mapping[str, Any]


class NoSample(ValueError):
    """No value can be generated for a schema. The message contains the path and the reason."""


def nothing(place: str, why: str) -> NoSample:
    """Return the error for data that cannot be generated.

    `place` is the path in the data, which begins with `$` (the root), and `why` is the reason.
    """
    return NoSample(f"no value for `{place}`: {why}")


def resolved(reference: str, root: Node) -> Any:
    """Return the target of a reference within a schema; `{}` if the target does not exist."""
    target: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name, {}) if isinstance(target, Mapping) else {}
    return target


def listed(node: Node, keyword: str) -> list[Any]:
    """Return the list that is a keyword's value; empty if the node does not have the keyword."""
    value = node.get(keyword)
    return value if isinstance(value, list) else []


def size(node: Node, keyword: str, otherwise: int = 0) -> int:
    """Return the number that is a keyword's value, or `otherwise` if the keyword is absent."""
    value = node.get(keyword)
    return int(value) if isinstance(value, int | float) else otherwise


def kind_of(node: Node) -> str:
    """Return the `type` of a node, or else the type that another keyword of the node implies."""
    kind = node.get("type")
    if isinstance(kind, str):
        return kind
    return next((type for keyword, type in _IMPLIED.items() if keyword in node), "string")


_IMPLIED = {
    "properties": "object",
    "required": "object",
    "patternProperties": "object",
    "prefixItems": "array",
    "items": "array",
    "minimum": "number",
    "maximum": "number",
    "exclusiveMinimum": "number",
    "exclusiveMaximum": "number",
    "multipleOf": "number",
}
"""The type that each of these keywords implies for a node without `type`."""


def property_of(node: Node, name: str, has: Callable[[str, str], bool]) -> Any:
    """Return the schema node for a property of an object; `has` tells if a pattern matches."""
    if name in (named := node.get("properties", {})):
        return named[name]
    for pattern, part in node.get("patternProperties", {}).items():
        if has(pattern, name):
            return part
    return node.get("additionalProperties", True)


def item(node: Node, at: int) -> Any:
    """Return the schema node for the array item with the index `at`."""
    items = node.get("items", True)
    if at < len(prefix := listed(node, "prefixItems")):
        return prefix[at]
    if isinstance(items, list):  # until draft 2019-09
        return items[at] if at < len(items) else node.get("additionalItems", True)
    return items


def is_of(kinds: Any, value: Any) -> bool:
    """Return True if a node's `type` allows a value; `None` allows any value."""
    if kinds is None:
        return True
    stated = kinds if isinstance(kinds, list) else [kinds]
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_whole = isinstance(value, int) or value.is_integer()
        return "number" in stated or (is_whole and "integer" in stated)
    return next((name for type, name in _NAMES.items() if isinstance(value, type)), "") in stated


_NAMES = {bool: "boolean", str: "string", list: "array", dict: "object", type(None): "null"}


# -- merging nodes -------------------------------------------------------------------------------

_ANNOTATIONS = {"title", "description", "examples", "deprecated", "readOnly", "writeOnly"}


def joined(nodes: Sequence[Any]) -> Any:
    """Return a node that allows exactly the values that all of the nodes allow."""
    if any(node is False for node in nodes):
        return False
    telling = [n for n in nodes if isinstance(n, Mapping) and n.keys() - _ANNOTATIONS]
    if len(telling) == 1:
        return telling[0]
    whole: dict[str, Any] = {}
    for node in telling:
        for keyword, value in node.items():
            if keyword not in whole:
                whole[keyword] = value
            elif whole[keyword] != value and keyword in _JOINS:
                whole[keyword] = _JOINS[keyword](whole[keyword], value)
    return whole


def _join_nodes(one: Any, other: Any) -> Any:
    return {"allOf": [one, other]}


def _join_named(one: Node, other: Node) -> dict[str, Any]:
    both = {name: _join_nodes(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _join_values(one: Any, other: Any) -> Any:
    known = set(map(_key, other))
    return [value for value in one if _key(value) in known]


def _key(value: Any) -> str:
    """Return the same text for equal values: 1.0 equals 1."""
    is_whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if is_whole else value, sort_keys=True)


def _join_types(one: Any, other: Any) -> Any:
    first, second = _types(one), _types(other)
    known = {*second}
    both = [kind for kind in first if kind in known]
    if "integer" in {*first, *second} and "number" in {*first, *second}:
        both.append("integer")
    return both[0] if len(both) == 1 else both


def _types(value: Any) -> list[str]:
    """Return the texts in the value of `type`, the only values that name a type."""
    values = value if isinstance(value, list) else [value]
    return [kind for kind in values if isinstance(kind, str)]


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _join_types,
    "enum": _join_values,
    "required": lambda one, other: [*dict.fromkeys((*one, *other))],
    "properties": _join_named,
    "patternProperties": _join_named,
    "items": _join_nodes,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
"""Functions that merge two values of a keyword. For all other keywords, the first value is kept."""

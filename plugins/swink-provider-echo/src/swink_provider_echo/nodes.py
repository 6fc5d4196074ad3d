"""Nodes of a JSON schema: their parts, and one node that stands for several."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = [
    "NoSample", "Node", "has", "is_of", "item", "joined", "kind_of", "listed", "nothing",
    "property_of", "resolved", "size",
]  # fmt: skip

Node: TypeAlias = Mapping[str, Any]


class NoSample(ValueError):
    """A schema of which no value can be made; the message names the place and the keyword."""


def nothing(place: str, why: str) -> NoSample:
    """Return the error for a place in the data, from `$` on."""
    return NoSample(f"no value for `{place}`: {why}")


def resolved(reference: str, root: Node) -> Any:
    """Return the node that a reference within a schema names; `{}` where it names none."""
    target: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            name = part.replace("~1", "/").replace("~0", "~")
            target = target.get(name, {}) if isinstance(target, Mapping) else {}
    return target


def listed(node: Node, keyword: str) -> list[Any]:
    """Return the list of a keyword; an empty one without it."""
    value = node.get(keyword)
    return value if isinstance(value, list) else []


def size(node: Node, keyword: str, otherwise: int = 0) -> int:
    """Return the count of a keyword, or another one without it."""
    value = node.get(keyword)
    return int(value) if isinstance(value, int | float) else otherwise


def kind_of(node: Node) -> str:
    """Return the type of a node that has no alternatives, stated or implied."""
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
"""The type of a node that states none, by a keyword that applies to that type alone."""


def property_of(node: Node, name: str) -> Any:
    """Return the node of an object's property."""
    if name in (named := node.get("properties", {})):
        return named[name]
    for pattern, part in node.get("patternProperties", {}).items():
        if has(pattern, name):
            return part
    return node.get("additionalProperties", True)


def item(node: Node, at: int) -> Any:
    """Return the node of an array's item."""
    items = node.get("items", True)
    if at < len(prefix := listed(node, "prefixItems")):
        return prefix[at]
    if isinstance(items, list):  # until draft 2019-09
        return items[at] if at < len(items) else node.get("additionalItems", True)
    return items


def is_of(kinds: Any, value: Any) -> bool:
    """Return True if a value is of a node's `type`; `None` allows any."""
    if kinds is None:
        return True
    stated = kinds if isinstance(kinds, list) else [kinds]
    if isinstance(value, int | float) and not isinstance(value, bool):
        is_whole = isinstance(value, int) or value.is_integer()
        return "number" in stated or (is_whole and "integer" in stated)
    return next((name for type, name in _NAMES.items() if isinstance(value, type)), "") in stated


_NAMES = {bool: "boolean", str: "string", list: "array", dict: "object", type(None): "null"}


def has(pattern: str, text: str) -> bool:
    """Return True if a pattern is found in a text; one that Python cannot read is found in none."""
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False


# -- one node for several ------------------------------------------------------------------------

_ANNOTATIONS = {"title", "description", "examples", "deprecated", "readOnly", "writeOnly"}


def joined(nodes: Sequence[Any]) -> Any:
    """Return a node that allows only what all of several nodes allow."""
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


def _join_types(one: Any, other: Any) -> Any:
    first = one if isinstance(one, list) else [one]
    second = other if isinstance(other, list) else [other]
    both = [kind for kind in first if kind in second]
    if "integer" in {*first, *second} and "number" in {*first, *second}:
        both.append("integer")
    return both[0] if len(both) == 1 else both


_JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "type": _join_types,
    "enum": lambda one, other: [value for value in one if value in other],
    "required": lambda one, other: [*dict.fromkeys((*one, *other))],
    "properties": _join_named,
    "patternProperties": _join_named,
    "items": _join_nodes,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
}
"""How two values of a keyword become one; of the other keywords, the first value is kept."""

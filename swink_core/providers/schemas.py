"""Rewrite JSON schemas for APIs that accept only certain forms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

MOST_NODES = 10_000
"""References are not expanded in a schema that would then have more nodes than this.

Without a limit, even a small schema with nested references could grow enormously.
"""

MOST_REMEMBERED = 1024
LONGEST_REMEMBERED = 64 * 1024
"""The longest schema, in bytes, whose rewritten form is cached."""

_DEFINITIONS = ("$defs", "definitions")


def rewritten_schema(
    rewrite: Callable[..., dict[str, Any]], schema: Mapping[str, Any], *more: Hashable
) -> dict[str, Any]:
    """Return `rewrite(schema, *more)`, from a cache if it was called before with the same JSON.

    The cache saves time because every request of a conversation contains the same tools. Callers
    must not change the result, which they share. `rewrite` must be a pure function.
    """
    try:
        encoded = msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError):  # it must be repaired before encoding
        return rewrite(schema, *more)
    if len(encoded) > LONGEST_REMEMBERED:
        return rewrite(schema, *more)
    return _rewritten(rewrite, encoded, *more)


@lru_cache(maxsize=MOST_REMEMBERED)
def _rewritten(
    rewrite: Callable[..., dict[str, Any]], encoded: bytes, *more: Hashable
) -> dict[str, Any]:
    return rewrite(msgspec.json.decode(encoded), *more)


def closed_schema(schema: Any) -> Any:
    """Return a JSON schema in which every object forbids additional properties.

    Some APIs require such schemas. An object schema that already has the keyword
    `additionalProperties` keeps its value.
    """
    if isinstance(schema, list):
        return [closed_schema(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {name: closed_schema(value) for name, value in schema.items()}
    if "object" in (closed.get("type"), *_told(closed, "type", list)):
        closed.setdefault("additionalProperties", False)
    return closed


def plain_union(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON schema with `anyOf` instead of `oneOf`, and without `discriminator`.

    Some APIs reject these keywords. The alternatives of a union that has a discriminator exclude
    each other, so `anyOf` has the same meaning there; otherwise it permits more. Schemas inside
    this one are not changed, nor is a schema that has both keywords.
    """
    plain = {name: value for name, value in schema.items() if name != "discriminator"}
    if "oneOf" in plain and "anyOf" not in plain:
        plain["anyOf"] = plain.pop("oneOf")
    return plain


def plain_tuple(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a fixed-length array with a schema as `items`, which some APIs require.

    If all items have the same schema, it becomes `items`, and `prefixItems` is removed. Otherwise
    `items` is empty. The meaning stays the same: arrays that may have items after those of
    `prefixItems` are not changed, nor are schemas inside this one.
    """
    plain = dict(schema)
    parts = _told(plain, "prefixItems", list)
    longest = plain.get("maxItems", len(parts) if plain.get("items") is False else None)
    if not parts or not isinstance(longest, int) or longest > len(parts):
        return plain
    is_uniform = all(part == parts[0] for part in parts)
    if is_uniform:
        del plain["prefixItems"]
    return {**plain, "maxItems": longest, "items": parts[0] if is_uniform else {}}


def joined_root(schema: Mapping[str, Any], refused: Collection[str]) -> dict[str, Any]:
    """Return an object schema without the keywords in `refused`, which an API rejects at the root.

    If `anyOf`, `oneOf` or `allOf` is removed, the properties of the schemas in it are added to the
    root's own properties, so that they remain allowed. The result no longer shows which properties
    belong to the same alternative.
    """
    root = {name: value for name, value in schema.items() if name not in refused}
    fields: dict[str, Any] = {}
    for keyword in {"allOf", "anyOf", "oneOf"}.intersection(refused):
        for part in (each for each in _told(schema, keyword, list) if isinstance(each, Mapping)):
            part = _named(schema, str(part.get("$ref"))) or part
            for name, value in _told(part, "properties", dict).items():
                known = fields.setdefault(name, value)
                fields[name] = value if known == value else {"anyOf": [known, value]}
            if keyword == "allOf":
                root["required"] = [*_told(root, "required", list), *_told(part, "required", list)]
    if fields:
        root["properties"] = {**fields, **_told(root, "properties", dict)}
    return {**root, "type": "object"}


def _told(part: Mapping[str, Any], name: str, kind: type) -> Any:
    """Return the value of a keyword in a schema, or an empty value of the type `kind`."""
    return told if isinstance(told := part.get(name), kind) else kind()


def inlined_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON schema in which each reference is replaced by the definition it refers to.

    If the schema is recursive, or would have more than `MOST_NODES` nodes, references are kept.
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


def is_recursive(schema: Mapping[str, Any]) -> bool:
    """Return True if a reference in a JSON schema points to a part that contains the reference."""
    followed = {"#": False}  # maps a reference to whether all below it was checked

    def leads_back(node: Any) -> bool:
        if isinstance(node, list):
            return any(map(leads_back, node))
        if not isinstance(node, Mapping):
            return False
        name = node.get("$ref")
        return (isinstance(name, str) and follow(name)) or any(map(leads_back, node.values()))

    def follow(name: str) -> bool:
        if name in followed:
            return not followed[name]
        followed[name] = False
        found = leads_back(_named(schema, name))
        followed[name] = True
        return found

    return leads_back(schema)


def has_object_root(schema: Mapping[str, Any]) -> bool:
    """Return True if the root of a JSON schema, or the part that it refers to, may be an object.

    The root cannot be an object if its `type` is not `object`, or if it has no `type` but another
    keyword such as `anyOf` or `enum`.
    """
    root = _named(schema, str(schema.get("$ref"))) or schema
    if "type" in root:
        return bool(root["type"] == "object")
    return root.keys().isdisjoint(("anyOf", "oneOf", "allOf", "enum", "const"))


def _named(schema: Any, reference: str) -> Mapping[str, Any] | None:
    """Return the part of `schema` to which `reference` points; `None` if there is no such part."""
    part = schema if reference.startswith("#/") else None
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        part = part.get(name) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) else None

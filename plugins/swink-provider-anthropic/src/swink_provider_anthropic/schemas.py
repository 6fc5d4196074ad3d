"""Convert JSON schemas to the subset that Claude models support, on any API that serves them.

https://platform.claude.com/docs/en/build-with-claude/structured-outputs: in answer schemas and in
schemas of strict tools, objects must set `additionalProperties` to `false`. The API rejects limits
of numbers, strings and arrays (such as `minimum`) in these schemas, and `prefixItems`. Such a
keyword is moved into the description of the field, as in the vendor's SDK (`transform_schema`).
It also rejects `oneOf`, which becomes `anyOf` (github.com/vercel/ai/issues/12876).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from swink_core import StreamOptions, replace
from swink_core.providers import Fitted, closed_schema, inlined_schema, plain_tuple, plain_union

__all__ = ["fit_schemas", "limits_in_words", "structured"]

MOST_STRICT_TOOLS = 20
MOST_OPTIONAL = 24
MOST_UNIONS = 16
"""The maximum number of union fields in all strict schemas.

`MOST_OPTIONAL` is the maximum number of optional fields in these schemas.
"""

LIMITS = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "minItems", "maxItems", "uniqueItems", "prefixItems", "minProperties",
    "maxProperties",
)  # fmt: skip
_OF_NAMES = ("properties", "$defs", "definitions")
_VALUES = ("enum", "const", "default", "examples")
_LOOKS_AROUND = re.compile(r"\(\?(?:[=!]|<[=!])")


def structured(options: StreamOptions) -> Any:
    """Convert the schema of `response_format` to the form of the API."""
    schema = closed_schema(options.response_format)
    return _in_words(schema, set()) if options.rules else schema


def limits_in_words(options: StreamOptions) -> list[str]:
    """Return the text of the notice about the keywords that were moved into descriptions."""
    found: set[str] = set()
    if options.rules and isinstance(options.response_format, Mapping):
        _in_words(options.response_format, found)
    names = ", ".join(sorted(found))
    return [f"response_format: {names} moved into descriptions"] if names else []


def fit_schemas(call: Fitted) -> None:
    """Reject an answer schema that permits any data somewhere; convert strict tools' schemas.

    A tool that exceeds the limits of strict mode is sent without `strict`, with a notice.
    """
    wanted = call.options.response_format
    if call.options.rules and isinstance(wanted, Mapping):
        sent = structured(call.options)
        if any(map(_is_open, _nodes(sent))):
            call.refuse(
                "structured_output",
                "does not accept schemas with open objects: set additionalProperties to false",
            )
        elif any(map(_is_any, _nodes(sent))):
            call.refuse(
                "structured_output",
                "does not accept schemas that permit any value: give each field and the items of "
                "each list a type",
            )
    if not call.options.rules or not any(tool.strict for tool in call.context.tools):
        return
    optional, unions = _counted(wanted if isinstance(wanted, Mapping) else {})
    tools, strict = [], 0
    for at, tool in enumerate(call.context.tools):
        if tool.strict:
            found: set[str] = set()
            schema = _in_words(closed_schema({"type": "object", **tool.parameters}), found)
            more, either = _counted(schema)
            fits = strict < MOST_STRICT_TOOLS and optional + more <= MOST_OPTIONAL
            if fits and unions + either <= MOST_UNIONS and _is_compiled(schema):
                strict, optional, unions = strict + 1, optional + more, unions + either
                if found:
                    names = ", ".join(sorted(found))
                    what = f": {names} of the schema of {tool.name} moved into descriptions"
                    call.tell(what, "option_changed", f"tools[{at}].parameters")
                tool = replace(tool, parameters=schema)
            else:
                what = (
                    f": strict was not sent for {tool.name}, whose schema exceeds the limits of "
                    "strict mode"
                )
                call.tell(what, "option_ignored", f"tools[{at}].strict")
                tool = replace(tool, strict=None)
        tools.append(tool)
    call.context = replace(call.context, tools=tools)


def _counted(schema: Mapping[str, Any]) -> tuple[int, int]:
    """Count the optional fields of a schema, and its fields with several types."""
    optional = unions = 0
    for node in _nodes(schema):
        optional += len(_names(node.get("properties")) - _names(node.get("required")))
        unions += "anyOf" in node or isinstance(node.get("type"), list)
    return optional, unions


_SEVERAL = (Mapping, list, tuple)


def _names(told: Any) -> set[str]:
    """Return the names in a value of `properties` or `required`; an empty set if it is invalid."""
    return {n for n in told if isinstance(n, str)} if isinstance(told, _SEVERAL) else set()


def _is_compiled(schema: Mapping[str, Any]) -> bool:
    """Return True if strict mode accepts a schema.

    Every object must set `additionalProperties` to `false`. References must not be circular, and
    patterns must not contain lookarounds.
    """
    whole = inlined_schema(schema)
    return not any(
        _is_open(node)
        or _is_any(node)
        or "$ref" in node
        or _LOOKS_AROUND.search(str(node.get("pattern", "")))
        for node in _nodes(whole)
    )


def _is_open(node: Mapping[str, Any]) -> bool:
    return node.get("additionalProperties", False) is not False


def _is_any(node: Mapping[str, Any]) -> bool:
    """Return True for a schema without a type, and for a list whose items have no schema.

    As in the vendor's SDK (`transform_schema`), each schema must have one of these keywords.
    """
    if node.get("type") == "array":
        return "items" not in node and "prefixItems" not in node
    return node.keys().isdisjoint(
        ("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "properties")
    )


def _nodes(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it."""
    if isinstance(node, list):
        for item in node:
            yield from _nodes(item)
    elif isinstance(node, Mapping):
        yield node
        for key, value in node.items():
            if key in _OF_NAMES and isinstance(value, Mapping):
                yield from _nodes([*value.values()])
            elif key not in _VALUES:
                yield from _nodes(value)


def _in_words(node: Any, found: set[str]) -> Any:
    if isinstance(node, list):
        return [_in_words(item, found) for item in node]
    if not isinstance(node, Mapping):
        return node
    node = plain_tuple(plain_union(node))
    limits = {key: value for key, value in node.items() if _is_refused(key, value)}
    parts = limits.get("prefixItems")
    if isinstance(parts, list):
        # only the types: the description must not repeat all schemas at each level
        limits["prefixItems"] = [_type_of(part) for part in parts]
        if node.get("items") == {} and "maxItems" in node:
            node["items"] = {"anyOf": parts}
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


def _type_of(part: Any) -> Any:
    return part.get("type") if isinstance(part, Mapping) else None


def _of_names(named: Any, found: set[str]) -> Any:
    if not isinstance(named, Mapping):
        return named
    return {name: _in_words(value, found) for name, value in named.items()}


def _is_refused(key: str, value: Any) -> bool:
    return key in LIMITS and not (key == "minItems" and value in (0, 1))

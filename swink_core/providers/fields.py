"""Merge the fields of a request body, which come from swink, the caller and the options."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from swink_core.vocabulary.checks import LayeredExtra
from swink_core.vocabulary.messages import Tool

JOINED = frozenset({"tools", "include"})
"""Fields whose lists are joined instead of replaced: tools, and additional output to include."""


def merge_fields(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings; later ones override earlier ones.

    Nested mappings are merged too. The lists in the fields `tools` and `include` are joined, the
    later layer's items first. Any other value is replaced by the later one.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for name, value in layer.items():
            known = merged.get(name)
            if isinstance(known, Mapping) and isinstance(value, Mapping):
                merged[name] = merge_fields(known, value)
            elif name in JOINED and isinstance(known, list | tuple) and value is not None:
                merged[name] = [*value, *(item for item in known if item not in value)]
            else:
                merged[name] = value
    return merged


def layered_extra(
    merged: Mapping[str, Any],
    own: Mapping[str, Any],
    inherited: Iterable[str],
    places: Mapping[str, Collection[str]],
) -> LayeredExtra:
    """Return `merged` as the `extra` of a call, and record what the call's `own` extra overrides.

    The call's `own` extra overrides the options whose names are in `inherited`, because these come
    from the client. `places` maps an option to the request fields in which it is sent, as dotted
    paths; an option that is missing there is sent under its own name.
    """
    names = frozenset(inherited)
    paths = [path.split(".") for name in names for path in places.get(name, (name,))]
    over = merge_fields(*(_part(own, path) for path in paths))
    return LayeredExtra(merged, over, own, names)


def _part(fields: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return only the value at a path, in the same nesting; empty if the path is missing."""
    name, *inner = path
    if name not in fields:
        return {}
    value = fields[name]
    if inner and isinstance(value, Mapping):
        value = _part(value, inner)
        if not value:
            return {}
    return {name: value}


def with_extra(
    extra: Mapping[str, Any], fields: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Merge `defaults`, the call's `extra` and `fields` to a body; the later one takes precedence.

    Fields that come from options of the client are overridden by the call's `extra`. `None` in
    `extra` removes a field; in `fields` it is a value like any other, since schemas may contain it.
    """
    merged = _without_none(merge_fields(defaults or {}, extra) if extra else defaults or {})
    if merged.keys().isdisjoint(fields):
        body = {**merged, **fields}
    else:
        body = merge_fields(merged, fields)
    if isinstance(extra, LayeredExtra):
        _replace(body, extra.over)
    return body


def _replace(body: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Override fields of a body in place, at every depth; `None` removes a field."""
    for name, value in over.items():
        known = body.get(name)
        if value is None:
            body.pop(name, None)
        elif isinstance(known, Mapping) and isinstance(value, Mapping):
            body[name] = {**known}
            _replace(body[name], value)
        else:
            body[name] = _without_none(value) if isinstance(value, Mapping) else value


def with_metadata(native: Mapping[str, Any], tool: Tool, provider: str) -> dict[str, Any]:
    """Return a tool in a provider's format, with the tool's metadata for that provider added."""
    own = tool.metadata.get(provider) if tool.metadata else None
    return merge_fields(native, own) if own else {**native}


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
        if value is not None
    }

"""Merge the fields of a request body: defaults, fields for options, and the option `extra`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from swink_core.vocabulary.checks import LayeredExtra
from swink_core.vocabulary.messages import Tool

JOINED = frozenset({"tools", "include"})
"""Fields in which a later list is joined with an earlier one and does not replace it.

`include` is OpenAI's list of additional outputs.
"""


def merge_fields(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings; later ones override earlier ones.

    Nested mappings are merged too. Lists in the fields `tools` and `include` are joined; the items
    of the later layer come first. In all other cases, the later value replaces the earlier one.
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
    """Return `merged` as a `LayeredExtra`, which records the fields of `own` that override options.

    `merged` is the `extra` of the client and of the call together, and `own` that of the call
    alone. `own` takes precedence over the options in `inherited`, which only the client sets.
    `places` maps the name of an option to the request fields in which the option is sent, as dotted
    paths. An option that `places` does not contain is sent under its own name.
    """
    names = frozenset(inherited)
    paths = [path.split(".") for name in names for path in places.get(name, (name,))]
    over = merge_fields(*(_part(own, path) for path in paths))
    return LayeredExtra(merged, over, own, names)


def _part(fields: Mapping[str, Any], path: Sequence[str]) -> dict[str, Any]:
    """Return a copy of nested mappings with only the value at `path`; `{}` without a value."""
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
    """Merge a request body: `fields` override `extra`, and `extra` overrides `defaults`.

    As an exception, the call's own `extra` takes precedence over fields for options that only the
    client sets. The value `None` in `extra` removes a field. In `fields`, `None` is a normal value,
    because schemas may contain it.
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
    """Add the tool's metadata for `provider` to `native`, the tool's definition in a request."""
    own = tool.metadata.get(provider) if tool.metadata else None
    return merge_fields(native, own) if own else {**native}


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value)
        if type(value) is dict or isinstance(value, Mapping)  # the former is found faster
        else value
        for name, value in fields.items()
        if value is not None
    }

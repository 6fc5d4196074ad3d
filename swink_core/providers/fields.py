"""What a request is made of: fields from swink, the caller and the options, and a model's path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from swink_core.failures.exceptions import InvalidModel
from swink_core.vocabulary.messages import Tool
from swink_core.vocabulary.models import Model

JOINED = frozenset({"tools", "include"})
"""Lists to which everybody adds: a service's own tools, and what is to come beside the answer."""


def merge_fields(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Lay each mapping over those before it.

    Mappings merge deeply, lists of tools and of includes are joined with the later layer's
    first, of everything else the later wins.
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


def with_extra(
    extra: Mapping[str, Any], fields: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a request's body: `defaults`, over them the call's `extra`, over that `fields`.

    `None` in `extra` removes a field; in `fields` it is a value like any other, since schemas
    have some.
    """
    laid = _without_none(merge_fields(defaults or {}, extra) if extra else defaults or {})
    return {**laid, **fields} if laid.keys().isdisjoint(fields) else merge_fields(laid, fields)


def body_as_extra_says(body: bytes, other: bytes, extra: Mapping[str, Any]) -> bytes:
    """Return a JSON body with the fields that `extra` names as they are in another, or are not."""
    decode = msgspec.json.decode
    return msgspec.json.encode(_as_extra_says(decode(body), decode(other), extra))


def _as_extra_says(body: Any, other: Any, extra: Any) -> Any:
    if not (isinstance(body, dict) and isinstance(other, dict) and isinstance(extra, Mapping)):
        return other
    said = {n: _as_extra_says(body.get(n), other[n], extra[n]) for n in extra if n in other}
    return {name: value for name, value in body.items() if name not in extra} | said


def with_metadata(native: Mapping[str, Any], tool: Tool, provider: str) -> dict[str, Any]:
    """Return a tool in a provider's terms, with what its metadata holds for that provider."""
    return merge_fields(native, (tool.metadata or {}).get(provider, {}))


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, Mapping) else value
        for name, value in fields.items()
        if value is not None
    }


def model_path(model: Model, name: str, safe: str = "") -> str:
    """Return a model's name as a part of a path, which it cannot leave.

    `safe` are characters to leave as they are. Raises InvalidModel.
    """
    try:
        if not {"", ".", ".."}.intersection(name.split("/")):
            return quote(name, safe=safe)
    except UnicodeEncodeError:
        pass
    raise InvalidModel(
        f"{str(model)!r} cannot be part of an address",
        resolution="Check the model's name; `swink models` lists those that are known.",
    )

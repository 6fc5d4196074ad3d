"""Whether an answer is the JSON that was asked for, as far as a few keywords of a schema tell.

What is looked at are types, enumerations, fields that have to be there or may not, and choices;
patterns, bounds and schemas that hold themselves are the API's own business.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from swink_cli.terminal import show_error
from swink_core.providers import inlined_schema

__all__ = ["fits", "misfit"]

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda data: isinstance(data, dict),
    "array": lambda data: isinstance(data, list),
    "string": lambda data: isinstance(data, str),
    "boolean": lambda data: isinstance(data, bool),
    "null": lambda data: data is None,
    "number": lambda data: isinstance(data, int | float) and not isinstance(data, bool),
    "integer": lambda data: (
        not isinstance(data, bool)
        and (isinstance(data, int) or (isinstance(data, float) and data.is_integer()))
    ),
}


def fits(text: str, asked: Any, whose: str = "The answer") -> bool:
    """Tell whether an answer is JSON as it was asked for, and tell a person why it is not."""
    why = misfit(text, asked)
    if why is not None:
        shape = "JSON" if asked == "json" else "JSON of the schema"
        show_error(f"{whose} is not the {shape} that was asked for", why, "Ask again.")
    return why is None


def misfit(text: str, asked: Any) -> str | None:
    """Return what keeps a text from being JSON, of a schema if one is `asked` for."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"it is no JSON: {error}"
    schema = inlined_schema(asked) if isinstance(asked, Mapping) else {}
    return next(_misfits(data, schema, "$"), None)


def _misfits(data: Any, schema: Any, at: str) -> Iterator[str]:
    """Yield what does not fit; `at` is where, as in `$.items[0].name`."""
    if not isinstance(schema, Mapping):
        return
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else _list(schema, "type")
    known = [kind for kind in kinds if isinstance(kind, str) and kind in _TYPES]
    if known and not any(_TYPES[kind](data) for kind in known):
        yield f"{at} is no {' or '.join(known)}"
        return
    choices = [schema["const"]] if "const" in schema else _list(schema, "enum")
    if choices and data not in choices:
        yield f"{at} is none of {json.dumps(choices, ensure_ascii=False)}"
    for part in _list(schema, "allOf"):
        yield from _misfits(data, part, at)
    for keyword in ("anyOf", "oneOf"):
        parts = _list(schema, keyword)
        if parts and all(any(_misfits(data, part, at)) for part in parts):
            yield f"{at} is none of the {len(parts)} that it may be"
    if isinstance(data, dict):
        yield from _fields(data, schema, at)
    elif isinstance(data, list):
        for number, item in enumerate(data):
            yield from _misfits(item, schema.get("items"), f"{at}[{number}]")


def _fields(data: dict[str, Any], schema: Mapping[str, Any], at: str) -> Iterator[str]:
    known = schema.get("properties")
    known = known if isinstance(known, Mapping) else {}
    for name in _list(schema, "required"):
        if isinstance(name, str) and name not in data:
            yield f"{at} has no {name!r}"
    is_closed = schema.get("additionalProperties") is False and "patternProperties" not in schema
    for name, value in data.items():
        if name in known:
            yield from _misfits(value, known[name], f"{at}.{name}")
        elif is_closed:
            yield f"{at} has {name!r}, which is not among its fields"


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return what a keyword lists; nothing where a person wrote something else."""
    listed = schema.get(keyword)
    return listed if isinstance(listed, list) else []

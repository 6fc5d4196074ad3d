"""Parse JSON schemas in command-line notation, and check whether answers match.

A schema is JSON, a file, or a short notation:

    name, age int, bio: in one sentence     an object of three fields, two of them text
    [name, age int]                         a list of such objects
    tags str[], born int?                   a list of texts; an optional field

Fields are separated by commas. If each field is on a separate line instead, descriptions may
contain commas.

Answers are checked for types, enumerations, required and forbidden fields and choices; patterns,
bounds and recursive schemas are not checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import swink_core as swink
from swink_cli.files import read_json, user_path
from swink_cli.terminal import show_error
from swink_core.providers import inlined_schema

__all__ = ["fits", "misfit", "read_schema", "schema_of"]

TYPES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
}

LIST = "items"
"""The field that contains a requested list, because APIs require an object at the top level."""

_FIELD = re.compile(
    r"(?P<name>[^\W\d]\w*)(?:\s+(?P<type>[a-z]+))?(?P<list>\[\])?(?P<optional>\?)?$"
)


def read_schema(given: str) -> dict[str, Any]:
    """Return the JSON schema given as inline JSON, a file, or the short notation.

    Raises UsageError if the schema is invalid.
    """
    if given.lstrip().startswith("{"):
        try:
            data: dict[str, Any] = json.loads(given)
        except ValueError as error:
            raise swink.InvalidOption(
                f"--schema is not valid JSON: {error}",
                resolution="Pass a JSON schema, or a file with one.",
            ) from error
        return data
    path = user_path(given)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long for a file name, or it contains a NUL
        is_file = False
    if is_file or _looks_like_a_path(given):
        if is_file and path.suffix != ".json" and not path.read_bytes().lstrip().startswith(b"{"):
            return schema_of(path.read_text("utf-8", "replace"))
        schema: dict[str, Any] = read_json(path, "JSON schema", dict)
        return schema
    return schema_of(given)


def _looks_like_a_path(given: str) -> bool:
    """Return True if the text looks like the path of a file, although the file does not exist."""
    word = given.strip()
    return not any(char in word for char in " ,\n[:") and any(char in word for char in "./\\")


def schema_of(words: str) -> dict[str, Any]:
    """Parse the short schema notation. Raises InvalidOption for a text that does not follow it."""
    text = words.strip()
    is_list = text.startswith("[") and text.endswith("]")
    text = text[1:-1].strip() if is_list else text
    properties: dict[str, Any] = {}
    required = []
    for field in filter(None, map(str.strip, re.split(r"\n" if "\n" in text else ",", text))):
        head, _, description = (part.strip() for part in field.rstrip(",").partition(":"))
        said = _FIELD.match(head)
        if said is None or (said["type"] or "str") not in TYPES:
            raise swink.InvalidOption(
                f"--schema: {field!r} is not a valid field",
                resolution=f"Write names, each with an optional type ({', '.join(TYPES)}) and "
                "description: 'name, age int, bio: in one sentence'.",
            )
        if said["name"] in properties:
            raise swink.InvalidOption(
                f"--schema: duplicate field {said['name']!r}",
                resolution=("Give each field a different name."),
            )
        one: dict[str, Any] = {"type": TYPES[said["type"] or "str"]}
        if said["list"]:
            one = {"type": "array", "items": one}
        properties[said["name"]] = one | ({"description": description} if description else {})
        if not said["optional"]:
            required.append(said["name"])
    if not properties:
        raise swink.InvalidOption(
            "--schema contains no fields", resolution="For example: 'name, age int'"
        )
    schema = {"type": "object", "properties": properties, "required": required}
    if not is_list:
        return schema
    items = {LIST: {"type": "array", "items": schema}}
    return {"type": "object", "properties": items, "required": [LIST]}


# -- whether an answer has the shape ---------------------------------------------------------------

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
    """Return whether an answer is the requested JSON, and print an error if not."""
    why = misfit(text, asked)
    if why is not None:
        shape = "JSON" if asked == "json" else "JSON of the schema"
        show_error(f"{whose} is not the requested {shape}", why, "Ask again.")
    return why is None


def misfit(text: str, asked: Any) -> str | None:
    """Explain why a text is not JSON or does not match the schema `asked`; `None` if it matches."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        return f"invalid JSON: {error}"
    schema = inlined_schema(asked) if isinstance(asked, Mapping) else {}
    return next(_misfits(data, schema, "$"), None)


def _misfits(data: Any, schema: Any, at: str) -> Iterator[str]:
    """Yield the mismatches; `at` is the path of `data` in the answer, as in `$.items[0].name`."""
    if not isinstance(schema, Mapping):
        return
    kind = schema.get("type")
    kinds = [kind] if isinstance(kind, str) else _list(schema, "type")
    known = [kind for kind in kinds if isinstance(kind, str) and kind in _TYPES]
    if known and not any(_TYPES[kind](data) for kind in known):
        yield f"{at} is not of type {' or '.join(known)}"
        return
    choices = [schema["const"]] if "const" in schema else _list(schema, "enum")
    if choices and data not in choices:
        yield f"{at} is not one of {json.dumps(choices, ensure_ascii=False)}"
    for part in _list(schema, "allOf"):
        yield from _misfits(data, part, at)
    for keyword in ("anyOf", "oneOf"):
        parts = _list(schema, keyword)
        if parts and all(any(_misfits(data, part, at)) for part in parts):
            yield f"{at} matches none of the {len(parts)} alternatives"
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
            yield f"{at} has the unexpected field {name!r}"


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    """Return the value of a schema keyword if it is a list, and otherwise an empty list."""
    listed = schema.get(keyword)
    return listed if isinstance(listed, list) else []

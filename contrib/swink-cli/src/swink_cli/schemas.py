"""JSON schemas as people write them on a command line: JSON, a file, or a few words.

    name, age int, bio: in one sentence     an object of three fields, two of them text
    [name, age int]                         a list of such objects
    tags str[], born int?                   a list of texts; a field that may be left out

Fields stand between commas, or in lines of their own, where a description may hold commas.
"""

from __future__ import annotations

import json
import re
from typing import Any

import swink_core as swink
from swink_cli.files import read_json, user_path

__all__ = ["read_schema", "schema_of"]

TYPES = {
    "str": "string",
    "text": "string",
    "int": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
}

LIST = "items"
"""The field that holds a list: what an API is asked for is an object."""

_FIELD = re.compile(
    r"(?P<name>[^\W\d]\w*)(?:\s+(?P<type>[a-z]+))?(?P<list>\[\])?(?P<optional>\?)?$"
)


def read_schema(given: str) -> dict[str, Any]:
    """Return the JSON schema that is meant: JSON as it stands, a file of it, or a few words.

    Raises UsageError, which says what is wrong.
    """
    if given.lstrip().startswith("{"):
        try:
            data: dict[str, Any] = json.loads(given)
        except ValueError as error:
            raise swink.InvalidOption(
                f"--schema is no JSON: {error}",
                resolution="Give a JSON schema, or a file with one.",
            ) from error
        return data
    path = user_path(given)
    try:
        is_file = path.is_file()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        is_file = False
    if is_file or _looks_like_a_path(given):
        if is_file and path.suffix != ".json" and not path.read_bytes().lstrip().startswith(b"{"):
            return schema_of(path.read_text("utf-8", "replace"))
        schema: dict[str, Any] = read_json(path, "JSON schema", dict)
        return schema
    return schema_of(given)


def _looks_like_a_path(given: str) -> bool:
    """Tell whether a person meant a file, which does not exist then."""
    word = given.strip()
    return not any(char in word for char in " ,\n[:") and any(char in word for char in "./\\")


def schema_of(words: str) -> dict[str, Any]:
    """Return the schema that a few words stand for. Raises InvalidOption."""
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
                f"--schema: {field!r} is no field",
                resolution=f"Write names, each with a type ({', '.join(TYPES)}) and a description "
                "if need be: 'name, age int, bio: in one sentence'.",
            )
        if said["name"] in properties:
            raise swink.InvalidOption(
                f"--schema: {said['name']!r} is there twice", resolution="Give each field one name."
            )
        one: dict[str, Any] = {"type": TYPES[said["type"] or "str"]}
        if said["list"]:
            one = {"type": "array", "items": one}
        properties[said["name"]] = one | ({"description": description} if description else {})
        if not said["optional"]:
            required.append(said["name"])
    if not properties:
        raise swink.InvalidOption(
            "--schema names no field", resolution="Write for example: 'name, age int'"
        )
    schema = {"type": "object", "properties": properties, "required": required}
    if not is_list:
        return schema
    items = {LIST: {"type": "array", "items": schema}}
    return {"type": "object", "properties": items, "required": [LIST]}

"""Convert rows to requests: fill prompt templates, read conversations, and determine ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from math import isfinite
from string import Formatter
from typing import Any

import msgspec
from attrs import define

from swink_batch.answers import Id
from swink_batch.rows import BadRow, Row
from swink_core import Context, Tool, UsageError, load

__all__ = ["Form", "Request", "digest", "key_of", "names_fields", "unasked"]

Prompt = Context | str | Mapping[str, Any] | Sequence[Any]

_ENCODER = msgspec.json.Encoder(order="deterministic", enc_hook=str)


def digest(data: bytes) -> int:
    """Return a 64-bit digest of data."""
    return int.from_bytes(blake2b(data, digest_size=8).digest())


def key_of(id: Id) -> int:
    """Return the digest of an id."""
    return digest(str(id).encode())


@define
class Request:
    """The request for one row.

    `key` is the digest of the id, and `check` the digest of the whole row. `why` explains why a row
    is invalid (`None`: it is valid).
    """

    id: Id
    key: int
    prompt: Prompt = ""
    options: Mapping[str, Any] = {}
    check: int = 0
    why: str | None = None


def names_fields(template: str) -> bool:
    """Return True if a template contains fields, so that each row has a different prompt."""
    return any(name is not None for _, name, _, _ in Formatter().parse(template))


def unasked(id: str, why: str) -> Request:
    """Create the `Request` for an invalid row; it is never sent, and `why` is the reason."""
    return Request(id, key_of(id), check=digest(why.encode()), why=why)


class Form:
    """The rules for converting rows to requests.

    `template` is a prompt with fields in braces, `{text}`, which are replaced by a row's values
    (`None`: the row has its own `prompt` or `messages`). `id_field` is the field with the row's id;
    a row without it is identified by its number, from 1. If `id_field` is not "id", the first row
    must have this field, so that a misspelt name is noticed.
    """

    def __init__(self, template: str | None = None, id_field: str = "id") -> None:
        self._id_field = id_field
        self._fill = _filling(template) if template is not None else None

    def request(self, number: int, row: Row | BadRow) -> Request:
        """Return the request for the row with this number."""
        if isinstance(row, BadRow):
            # A plain number could be the id of another row.
            return unasked(f"row {number}", row.why)
        named = {"prompt": row} if isinstance(row, str) else row
        try:
            id = str(number) if (given := named.get(self._id_field)) is None else _id(given)
            key, check = key_of(id), digest(_ENCODER.encode(row))
        except (ValueError, TypeError) as error:
            return unasked(f"row {number}", f"the row cannot be converted to JSON: {error}")
        if number == 1 and self._id_field not in named and self._id_field != "id":
            why = f"the row has no id field {self._id_field!r}; {_has(named)}"
            return Request(id, key, check=check, why=why)
        try:
            prompt, options = self._asked(named)
        except (ValueError, TypeError) as error:
            return Request(id, key, check=check, why=str(error))
        return Request(id, key, prompt, options, check)

    def _asked(self, row: Mapping[str, Any]) -> tuple[Prompt, Mapping[str, Any]]:
        options: dict[str, Any] = {}
        if (system := row.get("system_prompt")) is not None:
            options["system_prompt"] = system
        if (tools := row.get("tools")) is not None:
            options["tools"] = load(list[Tool], tools)
        if self._fill is not None:
            return self._fill(row), options
        given = [name for name in ("prompt", "messages") if row.get(name) is not None]
        if len(given) != 1:
            has = "both prompt and messages" if given else "neither prompt nor messages"
            raise ValueError(f"the row has {has}; its fields are {', '.join(map(str, row))}")
        prompt: Prompt = row[given[0]]
        if not isinstance(prompt, str | list | dict if given == ["prompt"] else list):
            raise TypeError(f"{given[0]} is of type {type(prompt).__name__}")
        return prompt, options


def _id(given: object) -> Id:
    """Return a row's id as a number or a string, the two types of `Answer.id`."""
    if type(given) is int or (type(given) is float and isfinite(given)):
        return given
    return _text(given)


def _text(value: object) -> str:
    """Return a string unchanged, and any other value as JSON."""
    if isinstance(value, bool | list | tuple | dict):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return str(value)


def _has(row: Mapping[str, Any]) -> str:
    return f"it has {', '.join(map(str, row))}"


def _filling(template: str) -> Callable[[Mapping[str, Any]], str]:
    try:
        parts = list(Formatter().parse(template))
    except ValueError as error:
        raise _bad_template(str(error)) from error
    for _, name, spec, conversion in parts:
        if name is not None and (not name.isidentifier() or spec or conversion):
            written = name + f"!{conversion}" * bool(conversion) + f":{spec}" * bool(spec)
            raise _bad_template(f"{{{written}}} is not a field name")

    def fill(row: Mapping[str, Any]) -> str:
        said: list[str] = []
        for text, name, _, _ in parts:
            said.append(text)
            if name is None:
                continue
            if name in row and row[name] is None:
                raise ValueError(f"the row's {name!r}, used in the prompt, is null")
            if name not in row:
                raise ValueError(f"the row has no {name!r}, used in the prompt; {_has(row)}")
            said.append(_text(row[name]))
        return "".join(said)

    return fill


def _bad_template(why: str) -> UsageError:
    return UsageError(
        f"the prompt is not a valid template: {why}",
        resolution="Write a row's fields in braces, {text}, without an index or a format; write "
        "{{ or }} for a literal brace.",
    )

"""From rows to requests: prompts from a template, the conversation that a row holds, ids."""

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
    """Return 64 bits that stand for data."""
    return int.from_bytes(blake2b(data, digest_size=8).digest())


def key_of(id: Id) -> int:
    """Return what stands for an id."""
    return digest(str(id).encode())


@define
class Request:
    """What is asked once. `key` stands for the id, and `check` for all that the row says; `why` is
    what is wrong with a row that cannot be asked (`None`: nothing)."""

    id: Id
    key: int
    prompt: Prompt = ""
    options: Mapping[str, Any] = {}
    check: int = 0
    why: str | None = None


def names_fields(template: str) -> bool:
    """Tell whether a template's prompts differ from row to row."""
    return any(name is not None for _, name, _, _ in Formatter().parse(template))


def unasked(id: str, why: str) -> Request:
    """Return what stands for a row that cannot be asked."""
    return Request(id, key_of(id), check=digest(why.encode()), why=why)


class Form:
    """How rows become requests.

    `template` is a prompt with fields in braces, `{text}`, which stand for a row's values (`None`:
    the row's own `prompt` or `messages`); `id_field` is the row's id (where a row has none, its
    number, from 1), and the first row has it where it is not "id".
    """

    def __init__(self, template: str | None = None, id_field: str = "id") -> None:
        self._id_field = id_field
        self._fill = _filling(template) if template is not None else None

    def request(self, number: int, row: Row | BadRow) -> Request:
        """Return the request of a row, of which this is the number."""
        if isinstance(row, BadRow):
            return unasked(f"row {number}", row.why)  # the number alone may be another row's id
        named = {"prompt": row} if isinstance(row, str) else row
        try:
            id = str(number) if (given := named.get(self._id_field)) is None else _id(given)
            key, check = key_of(id), digest(_ENCODER.encode(row))
        except (ValueError, TypeError) as error:
            return unasked(f"row {number}", f"the row has no JSON form: {error}")
        if number == 1 and self._id_field not in named and self._id_field != "id":
            why = f"the row has no {self._id_field!r}, by which rows are known; {_has(named)}"
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
    """Return an id as JSON has it: as a number, or as text."""
    if type(given) is int or (type(given) is float and isfinite(given)):
        return given
    return _text(given)


def _text(value: object) -> str:
    """Return a value as text: what JSON has a form of its own for, in that form."""
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
            raise _bad_template(f"{{{written}}} is no field's name")

    def fill(row: Mapping[str, Any]) -> str:
        said: list[str] = []
        for text, name, _, _ in parts:
            said.append(text)
            if name is None:
                continue
            if name in row and row[name] is None:
                raise ValueError(f"the row's {name!r}, which the prompt names, is null")
            if name not in row:
                raise ValueError(f"the row has no {name!r}, which the prompt names; {_has(row)}")
            said.append(_text(row[name]))
        return "".join(said)

    return fill


def _bad_template(why: str) -> UsageError:
    return UsageError(
        f"the prompt is no template: {why}",
        resolution="Name a row's fields in braces, {text}, without an index or a format; a brace "
        "itself is written {{ or }}.",
    )

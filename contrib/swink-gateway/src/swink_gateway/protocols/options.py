"""Parse option values that have the same form in the protocols of several vendors."""

from __future__ import annotations

from typing import Any

from swink_gateway.protocols import BadRequest
from swink_gateway.protocols.fields import Fields

__all__ = ["EFFORTS", "HIGHEST", "MARK", "SOUNDS", "answers", "marks_of", "response_format"]

MARK = "cache_control"
"""The field that marks the end of a cached part of the prompt."""

OPENAI_MARK = "prompt_cache_breakpoint"
"""OpenAI's field for the same purpose."""

EFFORTS = {
    "none": "off", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high",
    "xhigh": "extra_high", "max": "extra_high",
}  # fmt: skip
"""swink's levels of thinking, by the vendors' names."""

HIGHEST = "max"
"""The effort above `xhigh`, for which swink has no level."""

SOUNDS = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def response_format(form: Fields) -> dict[str, Any] | str:
    """Return the schema of a structured output, including its name and description."""
    schema = form.take("schema", dict)
    named = {"title": form.text("name"), "description": form.text("description")}
    form.flag("strict")  # strict mode is requested for every schema that allows it
    if schema is None:
        return "json"
    return {**schema, **{key: text for key, text in named.items() if text}}


def answers(said: Fields, name: str, most: int) -> int:
    """Return the number of requested answers. Raises BadRequest if it is not from 1 to `most`."""
    count = said.number(name)
    if count is None:
        return 1
    if not 1 <= count <= most or count != int(count):
        raise BadRequest(f"{said.place(name)} is {count}; expected a whole number from 1 to {most}")
    return int(count)


def marks_of(part: Fields) -> dict[str, Any]:
    """Return the cache marks of a part of a message, as metadata for the block."""
    names = (MARK, OPENAI_MARK)
    return {name: mark for name in names if (mark := part.take(name, dict)) is not None}

"""Words for options that several vendors share."""

from __future__ import annotations

from typing import Any

from swink_gateway.protocols.fields import Fields

__all__ = ["EFFORTS", "SOUNDS", "response_format"]

EFFORTS = {
    "none": "off", "minimal": "minimal", "low": "low", "medium": "medium", "high": "high",
    "xhigh": "extra_high", "max": "extra_high",
}  # fmt: skip
"""Our levels of thinking, by the vendors' words."""

SOUNDS = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def response_format(form: Fields) -> dict[str, Any] | str:
    """Return a schema that an answer keeps to; its name and description become the schema's."""
    schema = form.take("schema", dict)
    named = {"title": form.text("name"), "description": form.text("description")}
    form.flag("strict")  # what keeps strict mode's rules is asked for strictly
    if schema is None:
        return "json"
    return {**schema, **{key: text for key, text in named.items() if text}}

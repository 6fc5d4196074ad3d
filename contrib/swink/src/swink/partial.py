"""Parse incomplete JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from jiter import from_json

__all__ = ["json_in", "partial_json"]

_OPENING_FENCE = re.compile(r"\s*+```(?:json)?(?=\s)")
_NUMBER = re.compile(r"(?<![0-9])[0-9]+(?:[eE][+-]?[0-9]+)?\Z")
"""Matches the digits at the end of a text, which may be part of a number or of a string."""


def json_in(text: str) -> Any:
    """Parse a JSON answer, with or without a code fence. Raises ValueError for invalid JSON."""
    try:
        return json.loads(_inside(text), parse_constant=_refused)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not valid JSON")


def partial_json(text: str) -> Any:
    """Parse the beginning of a JSON text; return `None` if it is too short to contain data.

    An incomplete string is returned as far as it has arrived. A number or word that may continue,
    and a key without a value, are omitted.
    """
    inside = _inside(text)
    number = _NUMBER.search(inside)
    if number is None:
        return _data_in(inside)
    before = inside[: number.start()]
    data = _data_in(before)
    with_letter = _data_in(f"{before}e")  # an added letter is valid only in a string
    is_in_string = with_letter is not None and with_letter != data
    return _data_in(inside) if is_in_string else data


def _data_in(text: str) -> Any:
    """Return the data of incomplete JSON text, including a number at its end; `None` if invalid."""
    try:
        return from_json(text.encode(), allow_inf_nan=False, partial_mode="trailing-strings")
    except ValueError:  # or an incomplete character
        return None


def _inside(text: str) -> str:
    """Remove the code fence around a text. The time is linear in the length of the text."""
    opening = _OPENING_FENCE.match(text)
    if opening is None:
        return text
    inside = text[opening.end() :].lstrip()
    if "\n" not in text[opening.end() : len(text) - len(inside)]:
        return text
    trimmed = inside.rstrip()
    before = trimmed.removesuffix("```")
    if before is trimmed or len(before) == len(trimmed):
        return inside
    kept = before.rstrip()
    return kept if not before or "\n" in before[len(kept) :] else inside

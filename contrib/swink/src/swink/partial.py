"""JSON that is still coming: what its beginning already says."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["json_in", "partial_json"]

_OPENING_FENCE = re.compile(r"\s*+```(?:json)?(?=\s)")
_SPACE = re.compile(r"[\s,:]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*("?)', re.DOTALL)
_PLAIN = re.compile(r"[^\s,:\[\]{}\"]+")
_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?$")


def json_in(text: str) -> Any:
    """Return the JSON data of an answer, which may stand between fences. Raises ValueError."""
    try:
        return json.loads(_inside(text), parse_constant=_refused)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is no value of JSON")


def partial_json(text: str) -> Any:
    """Return what the beginning of JSON data says already; `None` where it says nothing.

    A string that is still coming is given as far as it came; a number or a word that may go on,
    and a key without a value, are left out.
    """
    try:
        return _Beginning(_inside(text)).value()
    except (_NothingYet, ValueError, RecursionError):
        return None


def _inside(text: str) -> str:
    """Remove the fence. Each pattern and method touches a character once, so this is linear."""
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


class _NothingYet(Exception):
    """The text ends where a value should begin, or in one that cannot be given in part."""


class _Beginning:
    """Reads a text from its start; `is_cut` once it has met the end within a value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.is_cut = False

    def value(self) -> Any:
        sign = self.sign()
        if sign == "{":
            return self.fields()
        if sign == "[":
            return self.items()
        if sign == '"':
            return self.string()
        plain = _PLAIN.match(self.text, self.at)
        if plain is None or plain.end() == len(self.text):
            raise _NothingYet
        self.at = plain.end()
        return json.loads(plain[0])

    def sign(self) -> str:
        """Return the next character that says something; nothing at the end."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        return self.text[self.at : self.at + 1]

    def fields(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        self.at += 1
        try:
            while not self.is_cut and (sign := self.sign()) != "}":
                if sign != '"':
                    raise _NothingYet
                name = self.string()
                if not self.is_cut:
                    found[name] = self.value()
        except _NothingYet:
            self.is_cut = True
        self.at += 1
        return found

    def items(self) -> list[Any]:
        found: list[Any] = []
        self.at += 1
        try:
            while not self.is_cut and self.sign() != "]":
                found.append(self.value())
        except _NothingYet:
            self.is_cut = True
        self.at += 1
        return found

    def string(self) -> str:
        match = _STRING.match(self.text, self.at)
        written = match[0] if match else '"'
        self.at += len(written)
        if not (match and match[1]):
            self.is_cut = True
            written = _HALF_ESCAPE.sub(r"\1", written) + '"'
        read: str = json.loads(written, strict=False)
        return read

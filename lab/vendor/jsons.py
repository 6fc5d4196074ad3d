"""JSON as it travels: compact, and read without surprises."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["arguments", "compact", "dump", "load", "obj", "objects", "sorted_compact", "text"]


def dump(value: Any) -> bytes:
    """Encode a value as compact JSON."""
    return msgspec.json.encode(value)


def compact(value: Any) -> str:
    """Encode a value as compact JSON text."""
    return dump(value).decode()


def sorted_compact(value: Any) -> str:
    """Encode a value as compact JSON text, with the fields of objects in order."""
    return msgspec.json.encode(value, order="sorted").decode()


def load(data: bytes | str) -> Any:
    """Decode JSON. Raises ValueError for anything else."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"invalid JSON: {error}") from None


def arguments(text: str) -> Any:
    """Decode the arguments of a call; without any, or with invalid ones, return an empty object."""
    try:
        return load(text) if text else {}
    except ValueError:
        return {}


def obj(value: Any) -> dict[str, Any]:
    """Return a JSON object; for any other value, an empty one."""
    return value if isinstance(value, dict) else {}


def objects(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a JSON list; for any other value, none."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    """Return a JSON string; for any other value, an empty one."""
    return value if isinstance(value, str) else ""

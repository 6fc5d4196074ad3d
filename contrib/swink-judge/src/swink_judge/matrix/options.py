"""Option values to test: ordinary, falsy and extreme values, alone and in conflicting pairs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from msgspec import Meta

from swink_core import CacheStrategy
from swink_core.providers import OPTIONS, TUNING

__all__ = ["SCHEMA", "alone", "beside_tools", "numbers", "pairs", "values"]

SCHEMA = {
    "type": "object",
    "properties": {"nonce_answer": {"type": "string", "description": "nonce_meaning"}},
    "required": ["nonce_answer"],
    "additionalProperties": False,
}
LOOSE = {
    "type": "object",
    "title": "nonce_loose",
    "properties": {
        "nonce_count": {"type": "integer", "minimum": 0, "maximum": 9},
        "nonce_list": {"type": "array", "items": {"$ref": "#/$defs/nonce_item"}, "maxItems": 3},
    },
    "$defs": {"nonce_item": {"type": "object", "properties": {"nonce_size": {"type": "number"}}}},
}
OPEN = {
    "type": "object",
    "properties": {
        "nonce_sizes": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
    "required": ["nonce_sizes"],
}
RARE = {
    "type": "object",
    "properties": {
        "nonce_union": {
            "oneOf": [{"type": "string"}, {"type": "null"}],
            "discriminator": {"propertyName": "nonce_kind"},
        },
        "nonce_tuple": {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}],
            "items": False,
        },
        "nonce_set": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
    "required": ["nonce_union", "nonce_tuple", "nonce_set"],
    "additionalProperties": False,
}

_TRIED: dict[str, tuple[Any, ...]] = {
    "temperature": (0.2, 0, 1, 1.7, 2.0),
    "top_p": (0.9, 0, 1),
    "top_k": (40, 0, 1, 1000),
    "presence_penalty": (0.5, 0.0, 2.0, -2.0),
    "frequency_penalty": (0.5, 0, 2.0, -2.0),
    "max_tokens": (1, 15, 1000, 9_999_999),
    "stop": (
        ["nonce_stop"],
        [f"nonce_stop{n}" for n in range(4)],
        [f"nonce_stop{n}" for n in range(5)],
        [f"nonce_stop{n}" for n in range(6)],
        [f"nonce_stop{n}" for n in range(17)],
        [""],
        ["\n"],
    ),
    "seed": (7, 0, -1, 2**31, 2**63 - 1),
    "session_id": ("nonce-session", "", "nonce-session-" * 5, "nonce session/é?"),
    "user": ("nonce-user", "", "nonce-user-" * 30, "nonce@example.com"),
    "thinking": (
        "off", "minimal", "low", "medium", "high", "extra_high", 0, 1, 1024, 30_000, 1_000_000,
    ),
    "response_format": ("json", SCHEMA, LOOSE, OPEN, RARE),
    "cache": (
        "none",
        "auto",
        CacheStrategy("auto", 300),
        CacheStrategy("auto", 1800),
        CacheStrategy("auto", 3600),
        CacheStrategy("auto", 86_400),
    ),
    "transport": ("buffered",),
    "tool_choice": ("auto", "none", "required"),
    "parallel_tool_calls": (True, False),
}  # fmt: skip
"""The values to test, by option.

Each value is included because at least one API may treat it differently from other values.
For options that are not in this table, see `values`.
"""

_THINKING = ("off", "low", "high", "extra_high", 2000)

_BESIDE_THINKING: tuple[dict[str, Any], ...] = (
    {"temperature": 0.2},
    {"temperature": 1},
    {"temperature": 0.2, "top_p": 0.9},
    {"top_p": 0.9},
    {"top_p": 0.96},
    {"top_k": 40},
    {"presence_penalty": 0.5},
    {"frequency_penalty": 0.5},
    {"max_tokens": 500},
    {"max_tokens": 1500},
    {"max_tokens": 9_999_999},
    {"stop": ["nonce_stop"]},
    {"seed": 7},
    {"response_format": "json"},
    {"response_format": SCHEMA},
    {"cache": CacheStrategy("auto", 3600)},
    {"transport": "buffered"},
)

_BESIDE_TOOLS: tuple[dict[str, Any], ...] = (
    {},
    {"tool_choice": "auto"},
    {"tool_choice": "none"},
    {"tool_choice": "required"},
    {"tool_choice": "nonce_look_up"},
    {"parallel_tool_calls": True},
    {"parallel_tool_calls": False},
    {"parallel_tool_calls": False, "tool_choice": "required"},
    {"response_format": "json"},
    {"response_format": SCHEMA},
    {"response_format": SCHEMA, "tool_choice": "required"},
    {"temperature": 0},
    {"stop": ["nonce_stop"]},
    {"cache": CacheStrategy("auto", 3600)},
    {"transport": "buffered"},
)


def values(name: str) -> tuple[Any, ...]:
    """Return the values with which an option is tested, an ordinary value first.

    For most options, these are the example in `OPTIONS`, the falsy value of the type (such as 0),
    and the bounds.
    """
    if (tried := _TRIED.get(name)) is not None:
        return tried
    option = OPTIONS[name]
    bounds = [edge for meta in _meta(option.annotation) for edge in (meta.ge, meta.le)]
    falsy = [kind() for kind in option.types if kind in (int, float, str, bool)][:1]
    tried = (option.example, *falsy, *bounds)
    return tuple(dict.fromkeys(value for value in tried if value is not None))


def _meta(annotation: Any) -> Iterator[Meta]:
    """Yield the msgspec constraints (`Meta`) in a type annotation."""
    for part in get_args(annotation):
        if isinstance(part, Meta):
            yield part
        yield from _meta(part)


def numbers() -> Iterator[str]:
    """Yield the names of the sampling and output options whose values are numbers."""
    yield from (name for name in TUNING if OPTIONS[name].types <= {int, float})


def alone() -> Iterator[dict[str, Any]]:
    """Yield an empty set of options, and each option alone."""
    yield {}
    for name, option in OPTIONS.items():
        if option.kind in ("tuning", "answer") or name in _TRIED:
            for value in values(name):
                yield {name: value}


def pairs() -> Iterator[dict[str, Any]]:
    """Yield pairs of options that an API may refuse together."""
    yield {"temperature": 0.2, "top_p": 0.9}
    yield {"temperature": 0, "top_k": 1, "top_p": 0.5, "seed": 0}
    yield {"session_id": "nonce-session", "user": "nonce-user", "cache": "auto"}
    named = {name for more in _BESIDE_THINKING for name in more}
    others = [{name: OPTIONS[name].example} for name in numbers() if name not in named]
    for level in _THINKING:
        for more in (*_BESIDE_THINKING, *others):
            yield {"thinking": level, **more}


def beside_tools() -> Iterator[dict[str, Any]]:
    """Yield options that only matter if the call has tools."""
    yield from _BESIDE_TOOLS
    for level in _THINKING:
        for more in _BESIDE_TOOLS:
            yield {"thinking": level, **more}

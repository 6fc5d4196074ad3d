"""Texts, images, tools and arguments for the conversations."""

from __future__ import annotations

import base64
import random
import struct
import zlib
from typing import Any

__all__ = ["TOOLS", "arguments", "base64_of", "image", "schema", "sentence", "tools"]

_WORDS = (
    "harbour", "lantern", "seven", "quietly", "ledger", "of", "the", "north", "wind", "answers",
    "a", "question", "about", "copper", "and", "rain", "while", "maps", "fold", "themselves",
    "12", "3.50", "x_1", "don't", "naïve", "Ærøskøbing", "façade",
)  # fmt: skip
_CJK = ("東京の雨は静かです。", "河流很慢，船也很慢。", "서울은 맑다.", "価格は1,200円です。")
_EMOJI = ("🚢🌊", "👩‍👩‍👧‍👦", "🇳🇴", "✍🏽", "café — naïve", "e\u0301", "مرحبا", "שלום")
_CODE = (
    "def f(x):\n    return [i for i in x]\n",
    '{"a": [1, 2, {"b": null}]}',
    "<tag attr='v'>&amp;</tag>",
    "C:\\temp\\new\n\ttabbed",
    "data: [DONE]",
    "event: error",
    "```python\nprint('hi')\n```",
)


def sentence(chance: random.Random, most: int = 40) -> str:
    """Return a text of some words, often with other scripts and code; no space at its ends."""
    made = [chance.choice(_WORDS) for _ in range(chance.randint(1, most))]
    for rare in (_CJK, _EMOJI, _CODE):
        if chance.random() < 0.2:
            made.insert(chance.randint(0, len(made)), chance.choice(rare))
    return " ".join(made).strip()


def image(chance: random.Random) -> bytes:
    """Return a small PNG of a random size."""
    width = chance.randint(1, 60)
    height = chance.randint(1, 60)
    row = b"\0" + bytes(chance.randrange(256) for _ in range(3)) * width
    data = zlib.compress(row * height)
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def base64_of(data: bytes) -> str:
    """Return standard base64."""
    return base64.b64encode(data).decode()


_TEXT = {"type": "string"}
TOOLS: dict[str, dict[str, Any]] = {
    "get_weather": {
        "description": "Tell the weather.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where."},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
    "add": {
        "description": "Add numbers: 足し算 🧮",
        "parameters": {
            "type": "object",
            "properties": {
                "numbers": {"type": "array", "items": {"type": "integer"}},
                "exact": {"type": "boolean"},
            },
            "required": ["numbers", "exact"],
            "additionalProperties": False,
        },
    },
    "file_report": {
        "description": "File a report.",
        "parameters": {
            "type": "object",
            "properties": {
                "title": _TEXT,
                "place": {
                    "type": "object",
                    "properties": {"street": _TEXT, "number": {"type": "integer"}},
                    "required": ["street", "number"],
                    "additionalProperties": False,
                },
                "tags": {"type": "array", "items": _TEXT},
            },
            "required": ["title", "place", "tags"],
            "additionalProperties": False,
        },
    },
}
"""Tools by name: a description and a JSON schema of the arguments."""


def tools(chance: random.Random) -> list[str]:
    """Return the names of one to three tools."""
    return chance.sample(sorted(TOOLS), chance.randint(1, len(TOOLS)))


def arguments(chance: random.Random, name: str) -> dict[str, Any]:
    """Return arguments that a tool's schema accepts."""
    if name == "get_weather":
        return {"city": sentence(chance, 3), "unit": chance.choice(["celsius", "fahrenheit"])}
    if name == "add":
        numbers = [chance.randint(-10, 10**12) for _ in range(chance.randint(0, 4))]
        return {"numbers": numbers, "exact": chance.random() < 0.5}
    place = {"street": sentence(chance, 4), "number": chance.randint(0, 99)}
    tags = [sentence(chance, 2) for _ in range(chance.randint(0, 3))]
    return {"title": sentence(chance, 5), "place": place, "tags": tags}


def schema(chance: random.Random) -> dict[str, Any]:
    """Return the JSON schema of an object for a structured answer."""
    properties: dict[str, Any] = {"title": _TEXT, "count": {"type": "integer"}}
    if chance.random() < 0.5:
        properties["steps"] = {"type": "array", "items": _TEXT}
    if chance.random() < 0.5:
        properties["kind"] = {"type": "string", "enum": ["a", "b", "ç"]}
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }

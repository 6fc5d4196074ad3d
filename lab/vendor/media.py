"""Tokens of images, by the vendors' formulas, from the size in the header of the image.

* OpenAI, 4o and 4.1: 85 tokens and 170 for each tile of 512 pixels, after the image was fitted
  into 2048 × 2048 and its short side to 768; 85 with low detail. Newer models: one token for each
  patch of 32 × 32 pixels, at most 1,536 (platform.openai.com/docs/guides/images-vision).
* Anthropic: width × height / 750, after the long side was fitted to 1,568 pixels
  (platform.claude.com/docs/en/build-with-claude/vision).
* Google: 258, or 258 for each tile of 768 pixels where a side is larger than 384; 1,120 from
  Gemini 3 on (ai.google.dev/gemini-api/docs/media-resolution).

Where the size is unknown, for an address or a file, and for other vendors it is `tokens.IMAGE`.
"""

from __future__ import annotations

import base64
import math
import re
import struct

from lab.vendor import tokens
from lab.vendor.catalog import Model

__all__ = ["image_tokens", "size_of"]

_PATCHES = 1_536
_GEMINI_3 = 1_120


def image_tokens(model: Model, data: str, *, low: bool = False) -> int:
    """Return the tokens of an image, given as base64 or as a data URL."""
    size = size_of(data)
    if size is None:
        return tokens.IMAGE
    width, height = size
    if model.vendor == "openai":
        return _openai(model, width, height, low)
    if model.vendor == "anthropic":
        width, height = _fitted(width, height, 1_568)
        return max(math.ceil(width * height / 750), 1)
    if model.vendor == "gemini":
        if re.match(r"gemini-[3-9]", model.id):
            return _GEMINI_3
        if max(width, height) <= 384:
            return tokens.IMAGE
        return tokens.IMAGE * math.ceil(width / 768) * math.ceil(height / 768)
    return tokens.IMAGE


def size_of(data: str) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF, WebP or JPEG; `None` for anything else."""
    text = data.partition(",")[2] if data.startswith("data:") else data
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    if raw.startswith(b"\x89PNG") and len(raw) >= 24:
        width, height = struct.unpack(">II", raw[16:24])
        return width, height
    if raw.startswith(b"GIF8") and len(raw) >= 10:
        width, height = struct.unpack("<HH", raw[6:10])
        return width, height
    if raw[8:15] == b"WEBPVP8" and len(raw) >= 30:
        return _webp(raw)
    return _jpeg(raw) if raw.startswith(b"\xff\xd8") else None


def _openai(model: Model, width: int, height: int, low: bool) -> int:
    if not re.match(r"(gpt-4o|gpt-4\.1)$|gpt-4o-2|gpt-4\.1-2", model.id):
        return min(math.ceil(width / 32) * math.ceil(height / 32), _PATCHES)
    if low:
        return 85
    width, height = _fitted(width, height, 2_048)
    short = min(width, height)
    if short > 768:
        width = math.ceil(width * 768 / short)
        height = math.ceil(height * 768 / short)
    return 85 + 170 * math.ceil(width / 512) * math.ceil(height / 512)


def _fitted(width: int, height: int, most: int) -> tuple[int, int]:
    long = max(width, height)
    if long <= most:
        return width, height
    return math.ceil(width * most / long), math.ceil(height * most / long)


def _webp(raw: bytes) -> tuple[int, int] | None:
    if raw[15:16] == b"X":
        width = int.from_bytes(raw[24:27], "little") + 1
        height = int.from_bytes(raw[27:30], "little") + 1
        return width, height
    if raw[15:16] == b"L":
        bits = int.from_bytes(raw[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", raw[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(raw: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
    return None

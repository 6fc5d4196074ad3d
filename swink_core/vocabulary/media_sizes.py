"""Determine the size of media in base64: pixels of images, seconds of sound, pages of PDFs."""

from __future__ import annotations

import re
import struct
from binascii import Error, a2b_base64

HEADER = 65_536
"""How many characters of an image's base64 are searched for the image's width and height."""

BYTES_A_SECOND = 8_000
"""The assumed bytes per second of compressed sound without a header (64 kbit/s)."""

BYTES_A_PAGE = 50_000
"""The assumed bytes per page of a PDF if its pages cannot be counted because of compression."""

_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")
_COUNT = re.compile(rb"/Count\s+(\d{1,6})")


def _decoded(data: str) -> bytes:
    """Decode base64; return empty bytes for text that is not base64."""
    try:
        return a2b_base64(data)
    except (Error, ValueError):
        return b""


def image_size(data: str) -> tuple[int, int] | None:
    """Return width and height of a PNG, GIF, WebP or JPEG in base64; `None` for other files."""
    raw = _decoded(data[:HEADER])
    if raw.startswith(b"\x89PNG") and len(raw) >= 24:
        width, height = struct.unpack(">II", raw[16:24])
    elif raw.startswith(b"GIF8") and len(raw) >= 10:
        width, height = struct.unpack("<HH", raw[6:10])
    elif raw[8:12] == b"WEBP" and len(raw) >= 30:
        width, height = _webp(raw)
    elif raw.startswith(b"\xff\xd8"):
        width, height = _jpeg(raw)
    else:
        return None
    return (width, height) if width and height else None


def _webp(raw: bytes) -> tuple[int, int]:
    kind = raw[12:16]
    if kind == b"VP8X":
        width = int.from_bytes(raw[24:27], "little") + 1
        return width, int.from_bytes(raw[27:30], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(raw[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = struct.unpack("<HH", raw[26:30])
    return width & 0x3FFF, height & 0x3FFF


def _jpeg(raw: bytes) -> tuple[int, int]:
    """Return the width and height of a JPEG, from its frame header (ITU T.81 B.2.2)."""
    at = 2
    while at + 9 <= len(raw) and raw[at] == 0xFF:
        marker = raw[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[at + 5 : at + 9])
            return width, height
        at += 2 + int.from_bytes(raw[at + 2 : at + 4], "big")
    return 0, 0


def audio_seconds(data: str) -> float:
    """Return the duration of sound in base64.

    The duration is computed from the bit rate in a WAV header, or else from `BYTES_A_SECOND`.
    """
    size = len(data) * 3 / 4
    raw = _decoded(data[:64])
    if raw.startswith(b"RIFF") and raw[8:12] == b"WAVE" and len(raw) >= 32:
        rate = int.from_bytes(raw[28:32], "little")
        if rate:
            return size / rate
    return size / BYTES_A_SECOND


def pdf_pages(data: str) -> int:
    """Return the number of pages of a PDF in base64, at least one.

    If the pages cannot be counted, the number is estimated from the size.
    """
    raw = _decoded(data)
    counts = [int(found) for found in _COUNT.findall(raw)]
    pages = max(len(_PAGE.findall(raw)), max(counts, default=0))
    return pages or 1 + len(data) * 3 // 4 // BYTES_A_PAGE

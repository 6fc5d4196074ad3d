"""Determine the size of media in base64: pixels of images, seconds of sound, pages of PDFs."""

from __future__ import annotations

import re
import struct
import zlib
from binascii import Error, a2b_base64
from collections.abc import Iterator
from contextlib import suppress

HEADER = 65_536
"""The maximum number of base64 characters that are read to find an image's size in pixels."""

BYTES_A_SECOND = 8_000
"""The assumed bytes per second of compressed sound without a header (64 kbit/s)."""

LEAST_BYTES_A_SECOND = 750
"""The lowest bytes per second of compressed sound: those of Opus (RFC 6716 section 2.1.1)."""

MP3_BYTES_A_SECOND = 4_000
"""The lowest bytes per second of MPEG-1 Layer III, which has no bit rate below 32 kbit/s."""

_UNCOMPRESSED = (0, 1, 3, 6, 7, 0xFFFE)
"""The formats of a WAV whose bytes per second do not vary: PCM, floats, A-law, mu-law."""

WAV_BYTES_A_SECOND = 1_536_000
"""The highest plausible bytes per second of a WAV: two channels, 192 kHz, 32 bits."""

BYTES_A_PAGE = 50_000
"""The assumed bytes per page of a PDF whose pages are compressed and cannot be counted."""

INFLATED = 8_388_608
"""The maximum bytes of a PDF's compressed objects that are read to count the pages."""

COMPRESSED = 134_217_728
"""The maximum bytes of compressed streams of a PDF that are read to count the pages."""

STREAMS = 10_000
"""The maximum number of compressed streams of a PDF that are read to count the pages."""


def _name(name: bytes) -> bytes:
    """Return a pattern for a PDF name, whose characters may be hexadecimal (ISO 32000 7.3.5)."""
    return b"/" + b"".join(b"(?:%c|#(?i:%02x))" % (char, char) for char in name)


_GAP = rb"(?:\s|%[^\r\n]{0,64}[\r\n]){0,64}"  # bounded, so that the time to search is linear
_PAGE = re.compile(_name(b"Type") + _GAP + _name(b"Page") + rb"(?![a-zA-Z#])")
_COUNT = re.compile(_name(b"Count") + _GAP + rb"\+?0*(\d{1,6})")
_OBJECTS = re.compile(_name(b"ObjStm"))


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


def audio_seconds(data: str) -> tuple[float, float]:
    """Return the expected and the longest duration of sound in base64.

    The duration is computed from the header of a WAV or Ogg file, or else from a usual bit rate.
    The longest duration is that of the lowest bit rate of the format, because the headers of
    compressed sound do not limit its duration.
    """
    size = len(data) * 3 / 4
    raw = _decoded(data[:HEADER])
    if raw.startswith(b"RIFF") and raw[8:12] == b"WAVE":
        rate = _wav_rate(raw)
        if rate:
            return size / rate, size / rate
    usual = size / BYTES_A_SECOND
    least = size / (MP3_BYTES_A_SECOND if _is_mpeg1(raw) else LEAST_BYTES_A_SECOND)
    if raw.startswith(b"OggS"):
        usual = max(usual, min(_ogg_seconds(raw, data), least))
    return usual, least


def _wav_rate(raw: bytes) -> float:
    """Return the bytes per second of a WAV; 0 if the header does not state them.

    If the fields contradict one another, the lower rate is used, which means a longer duration.
    """
    at = 12
    while at + 20 <= len(raw):
        name, length = struct.unpack("<4sI", raw[at : at + 8])
        if name == b"fmt ":
            fields = raw[at + 8 : at + 22].ljust(14, b"\0")
            form, _, samples, rate, block = struct.unpack("<HHIIH", fields)
            rates: list[int] = [rate, samples * block, WAV_BYTES_A_SECOND]
            return min(filter(None, rates)) if rate and form in _UNCOMPRESSED else 0
        at += 8 + length + length % 2
    return 0


def _is_mpeg1(raw: bytes) -> bool:
    """Return True for MPEG-1 Layer III, after an ID3 tag or without one."""
    at = 0
    if raw.startswith(b"ID3") and len(raw) >= 10:
        a, b, c, d = raw[6:10]
        at = 10 + (a << 21) + (b << 14) + (c << 7) + d
    return raw[at : at + 1] == b"\xff" and raw[at + 1 : at + 2] in (b"\xfa", b"\xfb")


def _ogg_seconds(raw: bytes, data: str) -> float:
    """Return the duration of an Ogg file in seconds, from its last page (RFC 3533 section 6).

    The duration is 0 or negative if the page does not state it.
    """
    tail = _decoded(data[-HEADER:])
    at = tail.rfind(b"OggS")
    samples = int.from_bytes(tail[at + 6 : at + 14], "little", signed=True) if at >= 0 else 0
    vorbis = raw.find(b"\x01vorbis", 0, 64)
    rate = int.from_bytes(raw[vorbis + 12 : vorbis + 16], "little") if vorbis >= 0 else 48_000
    return samples / (rate or 48_000)


def pdf_pages(data: str) -> int:
    """Return the number of pages of a PDF in base64, at least one.

    The highest page count in the file is used, because comments and unused objects may contain
    lower counts. If no page is readable, the number is at least the one estimated from the size.
    """
    raw = _decoded(data)
    room = INFLATED
    is_whole = True
    pages = len(_PAGE.findall(raw))
    counted = _highest_count(raw)
    for objects in _inflated(raw):
        pages += len(_PAGE.findall(objects))
        counted = max(counted, _highest_count(objects))
        room -= len(objects)
        is_whole = is_whole and bool(objects)
        if room <= 0:
            is_whole = False
            break
    if pages and is_whole:
        return max(pages, counted)
    return max(pages, counted, 1 + len(data) * 3 // 4 // BYTES_A_PAGE)


def _highest_count(raw: bytes) -> int:
    return max(map(int, _COUNT.findall(raw)), default=0)


def _inflated(raw: bytes) -> Iterator[bytes]:
    """Yield the contents of the streams with compressed objects; empty bytes if unreadable."""
    room = COMPRESSED
    last = 0
    for number, found in enumerate(_OBJECTS.finditer(raw)):
        stream = zlib.decompressobj()
        start = raw.find(b"stream", found.end(), found.end() + 256)
        begin = raw.find(b"\n", start, start + 9) + 1
        if start < 0 or begin <= last:
            yield b""
            continue
        last = begin
        end = raw.find(b"endstream", begin)
        room -= max(0, end - begin)
        if number == STREAMS or end < 0 or room < 0:
            yield b""
            return
        objects = b""
        with suppress(zlib.error):
            objects = stream.decompress(raw[begin:end], INFLATED)
        yield objects if stream.eof else b""

"""Decode AWS's binary event stream (bytes) into messages, without I/O.

    total length u32 | headers length u32 | CRC32 of these eight bytes
    headers: name length u8, name, type u8, value
    payload
    CRC32 of all bytes before this checksum

All numbers are big-endian. Source: https://smithy.io/2.0/aws/amazon-eventstream.html.

A frame is a complete message. `message` verifies its checksum and returns headers and payload;
after a damaged message, the following messages can still be read. The prelude (the first twelve
bytes) is verified when it arrives, so that the decoder never waits for more bytes because of an
invalid length. Messages of one type have identical header bytes; these are decoded once, and the
result is cached. Incomplete messages are buffered until all of their bytes have arrived, which
keeps the cost linear for reads of any size.

The conformance tests read and write messages as JSON. A message whose payload is a JSON object
becomes this object, with the headers as additional fields; their names begin with a colon. For an
event, the single field `type` replaces the headers.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn, TypeAlias
from uuid import UUID
from zlib import crc32

from swink_core.providers import DEFAULT_FRAME_LIMIT, FrameError, FrameTooLong

__all__ = ["EventStreamDecoder", "HeaderValue", "Message", "message"]

HeaderValue: TypeAlias = bool | int | bytes | str | UUID

HEADERS_LIMIT = 128 * 1024
"""The maximum size of a message's headers in bytes, according to the specification."""

_PRELUDE = struct.Struct(">III")
_LENGTHS_SIZE = 8
_PRELUDE_SIZE = _PRELUDE.size
_CRC_SIZE = 4
_OVERHEAD = _PRELUDE_SIZE + _CRC_SIZE
_KNOWN_HEADERS = 64

_EVENT = {":message-type": "event", ":content-type": "application/json"}

_TRUE, _FALSE, _BYTES, _STRING, _UUID = 0, 1, 6, 7, 9
_NUMBERS = {
    2: struct.Struct(">b"),
    3: struct.Struct(">h"),
    4: struct.Struct(">i"),
    5: struct.Struct(">q"),
    8: struct.Struct(">q"),
}
"""Formats of header values by type: byte, short, int, long, and milliseconds since 1970."""


class Message(NamedTuple):
    """The headers and payload of a message.

    Headers are shared between messages: do not change them.
    """

    headers: dict[str, HeaderValue]
    payload: bytes


def message(frame: bytes) -> Message:
    """Return the headers and payload of a frame from `EventStreamDecoder`.

    Raises FrameError if a checksum is wrong or the headers are invalid.
    """
    return Message(*headers_and_payload(frame))


def headers_and_payload(frame: bytes) -> tuple[dict[str, HeaderValue], bytes]:
    """Return headers and payload like `message`, but as a plain tuple, which is faster to create.

    Raises FrameError if a checksum is wrong or the headers are invalid.
    """
    if crc32(frame[:-_CRC_SIZE]) != int.from_bytes(frame[-_CRC_SIZE:]):
        raise FrameError("the checksum of an event stream message is wrong")
    end = _PRELUDE_SIZE + int.from_bytes(frame[4:8])
    return _headers(frame[_PRELUDE_SIZE:end]), frame[end:-_CRC_SIZE]


class EventStreamDecoder:
    """Decodes AWS's event stream into frames of one message each.

    `limit` is the maximum size of a message in bytes.
    """

    __slots__ = ("_limit", "_partial", "_wanted")

    binary = True
    """Frames are not text: besides the payload, they contain headers and checksums in bytes."""

    def __init__(self, limit: int = DEFAULT_FRAME_LIMIT) -> None:
        self._limit = limit
        self._partial = bytearray()
        self._wanted = _PRELUDE_SIZE

    def feed(self, data: bytes) -> list[bytes]:
        """Return the messages that `data` completes, in order.

        Raises `FrameTooLong` when a message exceeds the limit, and `FrameError` for a prelude
        whose checksum or lengths are wrong.
        """
        if self._partial:
            self._partial += data
            if len(self._partial) < self._wanted:
                return []
            data = bytes(self._partial)
            self._partial.clear()
        frames: list[bytes] = []
        start, self._wanted = 0, _PRELUDE_SIZE
        try:
            while len(data) - start >= _PRELUDE_SIZE:
                total, headers, checksum = _PRELUDE.unpack_from(data, start)
                if (
                    crc32(data[start : start + _LENGTHS_SIZE]) != checksum
                    or headers > HEADERS_LIMIT
                    or not _OVERHEAD + headers <= total <= self._limit
                ):
                    self._refuse(data, start)
                if len(data) - start < total:
                    self._wanted = total
                    break
                frames.append(data[start : start + total])
                start += total
        except FrameError as error:
            error.frames = frames
            raise
        self._partial += data[start:]
        return frames

    def finish(self) -> list[bytes]:
        """Return an empty list: an incomplete message cannot be verified, so it is discarded."""
        self._partial.clear()
        return []

    @staticmethod
    def as_json(frame: bytes) -> bytes:
        """Return a message as JSON. Raises ValueError if its payload cannot be converted."""
        headers, payload = message(frame)
        if ":event-type" in headers and headers.items() >= _EVENT.items():
            headers = {"type": headers[":event-type"]}
        return json.dumps(headers | _object(payload or b"{}")).encode()

    @staticmethod
    def of_json(text: bytes) -> bytes:
        """Return the message for JSON from `as_json`. Raises ValueError for other JSON."""
        data = _object(text)
        headers = {name: data.pop(name) for name in list(data) if name.startswith(":")}
        if "type" in data:
            headers = {":event-type": data.pop("type"), **_EVENT}
        block = b"".join(map(_header, headers.items()))
        body = json.dumps(data).encode() if data else b""
        lengths = struct.pack(">II", _OVERHEAD + len(block) + len(body), len(block))
        whole = lengths + crc32(lengths).to_bytes(_CRC_SIZE) + block + body
        return whole + crc32(whole).to_bytes(_CRC_SIZE)

    def _refuse(self, data: bytes, start: int) -> NoReturn:
        """Raise the error for an invalid prelude."""
        total, headers, checksum = _PRELUDE.unpack_from(data, start)
        if crc32(data[start : start + _LENGTHS_SIZE]) != checksum:
            raise FrameError("the checksum of an event stream message's prelude is wrong")
        if total < _OVERHEAD or headers > total - _OVERHEAD:
            raise FrameError("an event stream message is shorter than its headers")
        if headers > HEADERS_LIMIT:
            raise FrameTooLong("the headers of an event stream message", HEADERS_LIMIT)
        raise FrameTooLong("an event stream message", self._limit)


def _object(text: bytes) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        raise ValueError("the message is JSON of another type than an object")
    return data


def _header(named: tuple[str, Any]) -> bytes:
    name, value = named[0].encode(), str(named[1]).encode()
    if not isinstance(named[1], str) or len(value) >= 2**16:
        raise ValueError(f"the header {named[0]} is not valid text")
    return bytes([len(name)]) + name + bytes([_STRING]) + len(value).to_bytes(2) + value


@lru_cache(maxsize=_KNOWN_HEADERS)
def _headers(block: bytes) -> dict[str, HeaderValue]:
    headers: dict[str, HeaderValue] = {}
    try:
        at = 0
        while at < len(block):
            name, at = _sized(block, at + 1, block[at])
            value, at = _value(block, at)
            headers[name.decode()] = value
    except (IndexError, struct.error, UnicodeDecodeError):
        raise FrameError("the headers of an event stream message are broken") from None
    return headers


def _value(block: bytes, at: int) -> tuple[HeaderValue, int]:
    kind, at = block[at], at + 1
    if kind in (_TRUE, _FALSE):
        return kind == _TRUE, at
    if (number := _NUMBERS.get(kind)) is not None:
        return int(number.unpack_from(block, at)[0]), at + number.size
    if kind in (_BYTES, _STRING):
        size = int.from_bytes(block[at : at + 2])
        data, at = _sized(block, at + 2, size)
        return (data.decode() if kind == _STRING else data), at
    if kind == _UUID:
        data, at = _sized(block, at, 16)
        return UUID(bytes=data), at
    raise FrameError(f"a header of an event stream message has the unknown type {kind}")


def _sized(block: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(block):
        raise IndexError
    return block[at : at + size], at + size

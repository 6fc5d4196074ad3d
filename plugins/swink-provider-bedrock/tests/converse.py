"""Messages of AWS's event stream and events of ConverseStream, for tests that make answers up.

An independent encoder, so that the decoder is not tested against itself.
"""

from __future__ import annotations

import json
import struct
from typing import Any
from zlib import crc32

__all__ = ["CONTENT_TYPE", "METADATA", "START", "TEXT", "USAGE"]
__all__ += ["block", "delta", "encode", "event", "exception", "header", "said", "stop", "tool_use"]

CONTENT_TYPE = "application/vnd.amazon.eventstream"


def header(name: str, kind: int, value: bytes) -> bytes:
    """One header; `value` is what follows the type, a length included where the type has one."""
    return bytes([len(name.encode())]) + name.encode() + bytes([kind]) + value


def encode(headers: dict[str, str] | bytes, payload: bytes = b"") -> bytes:
    """Encode one message, with headers as strings or as raw bytes."""
    if isinstance(headers, dict):
        headers = b"".join(
            header(name, 7, struct.pack(">H", len(value.encode())) + value.encode())
            for name, value in headers.items()
        )
    start = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    start += struct.pack(">I", crc32(start)) + headers + payload
    return start + struct.pack(">I", crc32(start))


def event(kind: str, **payload: Any) -> bytes:
    """An event as the API sends it, padded."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return encode(headers, json.dumps({**payload, "p": "abcdefg"}, ensure_ascii=False).encode())


def exception(kind: str, **payload: Any) -> bytes:
    """An exception that the API names."""
    headers = {
        ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return encode(headers, json.dumps(payload).encode())


def delta(index: int, **what: Any) -> bytes:
    """A piece of a block."""
    return event("contentBlockDelta", contentBlockIndex=index, delta=what)


def block(index: int, *deltas: dict[str, Any], start: dict[str, Any] | None = None) -> bytes:
    """A whole block; text and reasoning have no start."""
    begun = event("contentBlockStart", contentBlockIndex=index, start=start) if start else b""
    pieces = b"".join(delta(index, **piece) for piece in deltas)
    return begun + pieces + event("contentBlockStop", contentBlockIndex=index)


def tool_use(id: str, name: str, **more: Any) -> dict[str, Any]:
    """The start of a tool call."""
    return {"toolUse": {"toolUseId": id, "name": name, **more}}


def stop(reason: str = "end_turn") -> bytes:
    """The event that completes an answer."""
    return event("messageStop", stopReason=reason)


USAGE = {"inputTokens": 8, "outputTokens": 3, "totalTokens": 11}
START = event("messageStart", role="assistant")
TEXT = block(0, {"text": "Hel"}, {"text": "lo"})
METADATA = event("metadata", usage=USAGE, metrics={"latencyMs": 5})


def said(*blocks: bytes, reason: str = "end_turn", metadata: bytes = METADATA) -> bytes:
    """A whole answer of these blocks."""
    return START + b"".join(blocks) + stop(reason) + metadata

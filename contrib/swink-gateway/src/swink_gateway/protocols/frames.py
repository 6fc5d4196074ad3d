"""JSON and server-sent events as bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = ["JSON", "SSE", "data_frame", "encode", "named_frame"]

JSON = "application/json"
SSE = "text/event-stream"


def encode(data: Any) -> bytes:
    """Return JSON data as bytes; half a character, which models do produce, as its escape."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode()


def data_frame(data: Any) -> bytes:
    """Return an event that has data alone."""
    return b"data: %b\n\n" % encode(data)


def named_frame(data: dict[str, Any]) -> bytes:
    """Return an event whose name is the `type` of its data."""
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), encode(data))

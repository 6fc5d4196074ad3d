"""Encode JSON and server-sent events as bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec

__all__ = ["ALIVE", "JSON", "SSE", "data_frame", "encode", "named_frame"]

JSON = "application/json"
SSE = "text/event-stream"

ALIVE = b": alive\n\n"
"""An SSE comment, which serves as a keep-alive message."""


def encode(data: Any) -> bytes:
    """Encode JSON; a lone surrogate, which models sometimes produce, is written as an escape."""
    try:
        return msgspec.json.encode(data)
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode()


def data_frame(data: Any) -> bytes:
    """Format an event that has only data."""
    return b"data: %b\n\n" % encode(data)


def named_frame(data: dict[str, Any]) -> bytes:
    """Format an event that is named by the `type` in the data."""
    return b"event: %b\ndata: %b\n\n" % (data["type"].encode(), encode(data))

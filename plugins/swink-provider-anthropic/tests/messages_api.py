"""Frames of the Messages API, for tests that make answers up."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["CITATION", "SERVER_TOOL", "START", "STOP", "TEXT", "TOOL"]
__all__ += ["block", "body", "ended", "input_json", "text"]

START = {"type": "message_start", "message": {"id": "msg_1", "model": "claude", "content": []}}
STOP = {"type": "message_stop"}

TEXT = {"type": "text", "text": ""}
TOOL: dict[str, Any] = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
SERVER_TOOL: dict[str, Any] = {
    "type": "server_tool_use",
    "id": "s1",
    "name": "web_search",
    "input": {},
}
CITATION: dict[str, Any] = {"type": "char_location", "cited_text": "grass", "document_index": 0}


def ended(reason: str | None = "end_turn", **more: Any) -> dict[str, Any]:
    """The frame that says why an answer stopped."""
    return {"type": "message_delta", "delta": {"stop_reason": reason}, **more}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    """The frames of one content block."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def text(delta: str) -> dict[str, Any]:
    """A piece of text."""
    return {"type": "text_delta", "text": delta}


def input_json(delta: str) -> dict[str, Any]:
    """A piece of a tool's input."""
    return {"type": "input_json_delta", "partial_json": delta}


def body(*frames: dict[str, Any]) -> bytes:
    """The frames as server-sent events."""
    return b"".join(
        b"event: %s\ndata: %s\n\n" % (str(frame.get("type")).encode(), json.dumps(frame).encode())
        for frame in frames
    )

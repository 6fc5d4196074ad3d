"""Tools that are called with free text: a call whose only argument, `input`, is that text.

Its metadata says so, in the terms of the Responses API, and either API takes it back from there.
Source: OpenAI's guide "Function calling", custom tools.
"""

from __future__ import annotations

import json
from typing import Any

from swink_core import ToolCallBlock

__all__ = ["FREE_TEXT", "begun", "ended", "is_free_text", "mark", "said"]

FREE_TEXT = "custom_tool_call"


def mark() -> dict[str, Any]:
    """Return the metadata of such a call that came from elsewhere than the Responses API."""
    return {"item": {"type": FREE_TEXT}}


def begun(text: str, opened: bool) -> str:
    """Return a piece of the text as one of the JSON text that the arguments are."""
    return ("" if opened else '{"input": "') + json.dumps(text)[1:-1]


def ended(opened: bool) -> str:
    """Return the end of that JSON text."""
    return '"}' if opened else '{"input": ""}'


def is_free_text(call: ToolCallBlock) -> bool:
    """Tell whether a call is one with free text."""
    item = (call.metadata or {}).get("item")
    return isinstance(item, dict) and item.get("type") == FREE_TEXT


def said(call: ToolCallBlock) -> str:
    """Return the text of a call, also of one that was cut short."""
    return str(call.arguments.get("input", call.raw_arguments or ""))

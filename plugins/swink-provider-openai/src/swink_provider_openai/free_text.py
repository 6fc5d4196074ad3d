"""Tools that are called with free text: their only argument, `input`, is that text.

The metadata of such a call contains `{"item": {"type": "custom_tool_call"}}`, as in the Responses
API. The converters of both APIs recognise such a call by this metadata. Source: OpenAI's guide
"Function calling", custom tools.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, NamedTuple

from swink_core import ToolCallBlock
from swink_core.providers import EventWriter
from swink_provider_openai.wire import Custom

__all__ = ["FREE_TEXT", "FreeTexts", "begun", "ended", "is_free_text", "said"]

FREE_TEXT = "custom_tool_call"


def begun(text: str, opened: bool) -> str:
    """Return JSON text for a piece of the free text, to append to the call's arguments.

    `opened` is true if this is not the first piece.
    """
    return ("" if opened else '{"input": "') + json.dumps(text)[1:-1]


def ended(opened: bool) -> str:
    """Return the JSON text that completes the arguments.

    `opened` is false if the free text is empty, so that no piece has been written.
    """
    return '"}' if opened else '{"input": ""}'


def is_free_text(call: ToolCallBlock) -> bool:
    """Return True if a call has a free-text argument."""
    item = (call.metadata or {}).get("item")
    return isinstance(item, dict) and item.get("type") == FREE_TEXT


def said(call: ToolCallBlock) -> str:
    """Return the free text of a call; if the answer was cut off, return the part that arrived."""
    if (text := call.arguments.get("input")) is not None:
        return str(text)
    raw = call.raw_arguments or ""
    with suppress(ValueError, LookupError):
        return str(json.loads(raw + ended(True))["input"])
    return raw


class _Text(NamedTuple):
    id: str | None = None
    name: str | None = None
    opened: bool = False


class FreeTexts:
    """The free-text calls of a Chat Completions answer that have not ended."""

    def __init__(self) -> None:
        self._open: dict[Any, _Text] = {}

    def is_open(self, key: Any) -> bool:
        """Return True if the call with this key is a free-text call that has not ended."""
        return key in self._open

    def add(self, key: Any, id: str | None, piece: Custom, out: EventWriter) -> None:
        """Write a piece of a call's text.

        If the id or the name differs from that of the open call with this key, a new call begins.
        """
        text = self._open.get(key, _Text())
        if (id and text.id and id != text.id) or (
            piece.name and text.name and piece.name != text.name
        ):
            out.tool_call(key, arguments=ended(text.opened))
            text = _Text()
        arguments = begun(piece.input, text.opened) if piece.input else None
        metadata = None if text.opened else {"item": {"type": FREE_TEXT}}
        out.tool_call(key, id, piece.name, arguments, metadata)
        opened = text.opened or arguments is not None
        self._open[key] = _Text(id or text.id, piece.name or text.name, opened)

    def end(self, cut: bool, out: EventWriter) -> None:
        """End the JSON arguments of the open calls, unless the answer was cut off."""
        for key, text in self._open.items() if not cut else ():
            out.tool_call(key, arguments=ended(text.opened))
        self._open.clear()

"""Write the events of tool call items.

Arguments first arrive in deltas and then as a whole (see the module `parser`). A call of a tool
with free text (`custom_tool_call`) becomes a tool call whose only argument, `input`, is that text.
The other fields of an item become metadata, which the next request sends back.
"""

from __future__ import annotations

from typing import Any

import msgspec

from swink_core.providers import EventWriter, text_field
from swink_provider_openai.errors import word
from swink_provider_openai.free_text import FREE_TEXT, begun, ended
from swink_provider_openai.responses.items import Item

__all__ = [
    "KINDS",
    "add_arguments",
    "add_input",
    "add_rest_of_arguments",
    "add_rest_of_input",
    "begin",
    "finish",
]

KINDS = frozenset({"function_call", FREE_TEXT})
KNOWN = frozenset({"call_id", "name", "arguments", "input", "status"})


def begin(item: Item, out: EventWriter) -> None:
    """Begin a call. If the call has already begun, add only an id or a name that was missing."""
    out.tool_call(item.number, word(item.data.get("call_id")), word(item.data.get("name")))


def add_arguments(item: Item, piece: Any, out: EventWriter) -> None:
    """Add a piece of the arguments."""
    if piece := text_field(piece, "delta"):
        item.part("arguments").add(piece)
        out.tool_call(item.number, arguments=piece)


def add_rest_of_arguments(item: Item, whole: Any, out: EventWriter) -> None:
    """Write that part of the complete arguments that the deltas did not contain."""
    if isinstance(whole, dict):
        whole = msgspec.json.encode(whole).decode()
    if rest := item.rest_of("arguments", text_field(whole, "arguments"), out):
        out.tool_call(item.number, arguments=rest)


def add_input(item: Item, piece: Any, out: EventWriter) -> None:
    """Add a piece of free text."""
    if piece := text_field(piece, "delta"):
        item.part("input").add(piece)
        _write_input(item, piece, out)


def add_rest_of_input(item: Item, whole: Any, out: EventWriter) -> None:
    """Write that part of the complete free text that the deltas did not contain."""
    if rest := item.rest_of("input", text_field(whole, "input"), out):
        _write_input(item, rest, out)


def finish(item: Item, out: EventWriter) -> None:
    """End a call, after writing any data of the complete item that earlier events lacked."""
    data = item.data
    begin(item, out)
    rest = {name: value for name, value in data.items() if name not in KNOWN}
    if item.kind == FREE_TEXT:
        add_rest_of_input(item, data.get("input"), out)
        if data.get("status") != "incomplete":
            out.tool_call(item.number, arguments=ended(item.opened))
    else:
        add_rest_of_arguments(item, data.get("arguments"), out)
        del rest["type"]
    if rest:
        out.tool_call(item.number, metadata={"item": rest})
    out.end(item.number)


def _write_input(item: Item, text: str, out: EventWriter) -> None:
    out.tool_call(item.number, arguments=begun(text, item.opened))
    item.opened = True

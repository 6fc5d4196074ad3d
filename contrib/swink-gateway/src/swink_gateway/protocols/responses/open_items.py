"""Items of a response on their way, and how the events of their pieces are called."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from swink_gateway.protocols.frames import encode

__all__ = ["DELTAS", "PARTS", "Open", "head_of_deltas"]

DELTAS: dict[str, tuple[str, dict[str, int]]] = {
    "text": ("output_text", {"content_index": 0}),
    "reasoning": ("reasoning_text", {"content_index": 0}),
    "summary": ("reasoning_summary_text", {"summary_index": 0}),
    "arguments": ("function_call_arguments", {}),
}
"""How the events of an item's pieces are called, and what else they name."""

PARTS: dict[str, tuple[str, dict[str, int], str]] = {
    "reasoning": ("content_part.added", {"content_index": 0}, "reasoning_text"),
    "summary": ("reasoning_summary_part.added", {"summary_index": 0}, "summary_text"),
}
"""The event before the first piece, and the type of its part."""


@define
class Open:
    """An item on its way: its place among the output, and the text that came.

    `head` is how each event of a piece begins, up to its number: nearly all events are these.
    """

    place: int
    item: dict[str, Any]
    kind: str
    text: list[str] = field(factory=list)
    head: bytes = b""

    @property
    def said(self) -> str:
        return "".join(self.text)


def head_of_deltas(opened: Open) -> bytes:
    """Return how each event of an item's pieces begins, up to its number."""
    word, index = DELTAS[opened.kind]
    kind = f"response.{word}.delta"
    said = {"type": kind, "item_id": opened.item["id"], "output_index": opened.place, **index}
    return b"event: %b\ndata: %b" % (kind.encode(), encode(said)[:-1]) + b',"sequence_number":'

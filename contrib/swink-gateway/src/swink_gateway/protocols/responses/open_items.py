"""Items of a response in progress, and the names of their delta events."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from swink_gateway.protocols.frames import encode

__all__ = ["DELTAS", "PARTS", "Open", "head_of_deltas"]

DELTAS: dict[str, tuple[str, dict[str, int]]] = {
    "text": ("output_text", {"content_index": 0}),
    "refusal": ("refusal", {"content_index": 0}),
    "reasoning": ("reasoning_text", {"content_index": 0}),
    "summary": ("reasoning_summary_text", {"summary_index": 0}),
    "arguments": ("function_call_arguments", {}),
}
"""The name and the fields of the delta events, for each kind of item."""

PARTS: dict[str, tuple[str, dict[str, int], str]] = {
    "reasoning": ("content_part.added", {"content_index": 0}, "reasoning_text"),
    "summary": ("reasoning_summary_part.added", {"summary_index": 0}, "summary_text"),
}
"""For each kind: the event before the first delta, its fields, and the type of the part."""


@define
class Open:
    """An item in progress: its index in the output, and its text so far.

    `head` is the constant beginning of each delta event, up to its sequence number. It is encoded
    once, because nearly all events are deltas.
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
    """Return the constant beginning of an item's delta events, up to the sequence number."""
    word, index = DELTAS[opened.kind]
    kind = f"response.{word}.delta"
    said = {"type": kind, "item_id": opened.item["id"], "output_index": opened.place, **index}
    return b"event: %b\ndata: %b" % (kind.encode(), encode(said)[:-1]) + b',"sequence_number":'

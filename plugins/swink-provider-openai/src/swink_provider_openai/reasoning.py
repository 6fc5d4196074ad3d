"""Parse reasoning in other forms than a text field: think tags, and OpenRouter's details."""

from __future__ import annotations

from typing import Any

from swink_core.providers import EventWriter

__all__ = ["ReasoningDetails", "ThinkTags"]

OPEN, CLOSE = "<think>", "</think>"

VISIBLE = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""The types of reasoning details that contain readable text, with the field of the text."""


class ThinkTags:
    """Splits content that begins with `<think>…</think>` into reasoning and text.

    Only a tag at the start of the content counts, because an answer may also be *about* such tags.
    If a delta ends with characters that may be the beginning of a tag, these characters are kept
    back until the next delta.
    """

    def __init__(self) -> None:
        self._space: list[str] = []  # white space at the start of the content
        self._held = ""
        self._inside = False

    def feed(self, piece: str, out: EventWriter) -> bool:
        """Write a piece of content as reasoning or text.

        Return `False` if all further content is text, so that no more tags are expected.
        """
        if not (self._inside or self._held or piece.strip()):
            self._space.append(piece)
            return True
        held = self._held + piece
        if not self._inside:
            start = held.lstrip()
            if len(start) < len(OPEN) and OPEN.startswith(start):
                self._held = held
                return True
            if not start.startswith(OPEN):
                out.text("".join([*self._space, held]))
                return False
            self._inside = True
            held = start[len(OPEN) :]
        thought, closed, text = held.partition(CLOSE)
        if closed:
            out.thinking(thought)
            out.text(text)
            return False
        keep = _tag_begun(held)
        out.thinking(held[: len(held) - keep])
        self._held = held[len(held) - keep :]
        return True

    def flush(self, out: EventWriter) -> None:
        """Write the text that was kept back; called at the end of the content."""
        if self._inside:
            out.thinking(self._held)
        elif self._held.strip():
            out.text("".join([*self._space, self._held]))
        self._space.clear()
        self._held = ""


def _tag_begun(text: str) -> int:
    """Return the length of the beginning of a closing tag with which a text ends, or 0."""
    return next((n for n in range(len(CLOSE) - 1, 0, -1) if text.endswith(CLOSE[:n])), 0)


class ReasoningDetails:
    """Joins the pieces of `reasoning_details` into the entries that the next request sends back.

    Pieces of readable text with the same `type`, `index` and `id` form one entry; its signature is
    in the last piece. Any other detail, such as encrypted data, is a separate entry and is not
    changed. Source: OpenRouter's guide "Reasoning tokens", section "Preserving reasoning blocks".
    """

    def __init__(self) -> None:
        self._entries: list[tuple[dict[str, Any], list[str]]] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, detail: Any) -> str:
        """Add a detail and return its readable text; ignore values that are not objects."""
        if not isinstance(detail, dict):
            return ""
        name = VISIBLE.get(str(detail.get("type")))
        text = detail.get(name)
        pieces = [text] if isinstance(text, str) else []
        last = self._entries[-1] if self._entries else None
        if last is not None and name and _continues(last[0], detail):
            last[0].update((k, v) for k, v in detail.items() if v is not None)
            last[1].extend(pieces)
        else:
            self._entries.append((dict(detail), pieces))
        return "".join(pieces)

    def take(self) -> list[dict[str, Any]]:
        """Return the entries, and remove them."""
        entries, self._entries = self._entries, []
        for detail, pieces in entries:
            if len(pieces) > 1:
                detail[VISIBLE[detail["type"]]] = "".join(pieces)
        return [detail for detail, _ in entries]


def _continues(earlier: dict[str, Any], detail: dict[str, Any]) -> bool:
    return (
        detail.get("index") is not None
        and not earlier.get("signature")
        and all(earlier.get(name) == detail.get(name) for name in ("type", "index", "id"))
    )

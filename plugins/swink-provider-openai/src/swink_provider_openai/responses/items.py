"""Items of the output on their way, and what of them has been passed on."""

from __future__ import annotations

from typing import Any

from swink_core.providers import EventWriter

__all__ = ["Item", "PartialText", "word"]


class PartialText:
    """A text that comes in pieces and then whole."""

    __slots__ = ("_length", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def rest_of(self, whole: str) -> str | None:
        """Return the rest of a complete text after its deltas, and mark it as received.

        `None`: the whole is another text than the pieces. An empty one says nothing.
        """
        if len(whole) < self._length:  # which costs nothing, however often it is repeated
            return None if whole else ""
        said = "".join(self._pieces)
        if not whole.startswith(said):
            return None
        self._pieces, self._length = [whole], len(whole)
        return whole[len(said) :]


class Item:
    """An item of the output on its way; `number` is its own, even where indices repeat."""

    __slots__ = ("contradicted", "data", "done", "number", "opened", "parts")

    def __init__(self, number: int, data: dict[str, Any]) -> None:
        self.number = number
        self.data = data
        self.parts: dict[Any, PartialText] = {}
        self.done = self.opened = self.contradicted = False

    @property
    def kind(self) -> str:
        return str(self.data.get("type") or "")

    def rest_of(self, key: Any, whole: str, out: EventWriter) -> str:
        """Return the rest of a complete part; report the first one that contradicts its deltas."""
        rest = self.part(key).rest_of(whole)
        if rest is None and not self.contradicted:
            self.contradicted = True
            kind = self.kind or "item"
            out.notice(
                "contradiction",
                f"a {kind} came whole as other than piece by piece; kept: the pieces",
            )
        return rest or ""

    def part(self, key: Any) -> PartialText:
        text = self.parts.get(key)
        if text is None:
            text = self.parts[key] = PartialText()
        return text


def word(value: Any) -> str | None:
    """Return an id or a name as text, or `None` for other values."""
    return str(value) if isinstance(value, str | int) and value != "" else None

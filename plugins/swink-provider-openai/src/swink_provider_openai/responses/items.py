"""Output items that are being received, with the text that has already been written."""

from __future__ import annotations

from typing import Any

from swink_core.providers import EventWriter

__all__ = ["Item"]


class PartialText:
    """A text that arrives in pieces and then as a whole."""

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
        """Return that part of the complete text `whole` that has not yet been received.

        Return `None` if `whole` does not begin with the received deltas, and an empty text if
        `whole` is empty. Otherwise, record that all of `whole` has been received.
        """
        if len(whole) < self._length:  # a cheap check first, because `whole` may arrive often
            return None if whole else ""
        said = "".join(self._pieces)
        if not whole.startswith(said):
            return None
        self._pieces, self._length = [whole], len(whole)
        return whole[len(said) :]


class Item:
    """An output item that is being received.

    `number` is unique in the response, even if the server uses the same index for two items.
    """

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
        """Return that part of the complete text `whole` that the deltas did not contain.

        `key` identifies the part of the item to which the text belongs. If the text contradicts the
        deltas, add a notice (at most one per item) and return an empty text.
        """
        rest = self.part(key).rest_of(whole)
        if rest is None and not self.contradicted:
            self.contradicted = True
            kind = self.kind or "item"
            out.notice(
                "contradiction",
                f"the complete {kind} differs from its streamed pieces; the pieces are used",
            )
        return rest or ""

    def part(self, key: Any) -> PartialText:
        text = self.parts.get(key)
        if text is None:
            text = self.parts[key] = PartialText()
        return text

"""Conversations that clients go on with by the id of an answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from swink_core import Message

__all__ = ["MOST_KEPT", "MOST_KEPT_BYTES", "Kept"]

MOST_KEPT = 1000
"""Answers that are kept, the newest."""

MOST_KEPT_BYTES = 256 * 1024 * 1024
"""Of the requests that led to them, all together."""


class Kept:
    """Messages up to an answer, by the answer's id; what was asked for longest ago goes first."""

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._held: OrderedDict[str, tuple[list[Message], int]] = OrderedDict()

    def keep(self, id: str, messages: Sequence[Message], size: int) -> None:
        """Keep a conversation that ends in the answer `id`; `size` is its request's, in bytes."""
        self._forget(id)
        self._held[id] = (list(messages), size)
        self._bytes += size
        while len(self._held) > self._most or self._bytes > self._most_bytes:
            self._forget(next(iter(self._held)))

    def messages(self, id: str) -> list[Message] | None:
        """Return the messages up to an answer, it included; `None` where it is not kept."""
        if id not in self._held:
            return None
        self._held.move_to_end(id)
        return self._held[id][0]

    def _forget(self, id: str) -> None:
        if (held := self._held.pop(id, None)) is not None:
            self._bytes -= held[1]

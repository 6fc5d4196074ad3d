"""Conversations that clients continue by the id of an answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from swink_core import Message

__all__ = ["MOST_KEPT", "MOST_KEPT_BYTES", "ConversationStore"]

MOST_KEPT = 1000
"""The number of the newest answers to keep."""

MOST_KEPT_BYTES = 64 * 1024 * 1024
"""The size limit for all kept conversations; data shared by two of them counts twice."""


Owner = object
"""The only owner who may continue from an answer: a connection, or the owner of a key."""


class ConversationStore:
    """Conversations by the id of their last answer; the least recently used is evicted first."""

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._held: OrderedDict[tuple[Owner, str], tuple[list[Message], int]] = OrderedDict()

    def keep(self, id: str, messages: Sequence[Message], size: int, owner: Owner = None) -> None:
        """Keep a conversation that ends in the answer `id`; `size` is its total size in bytes."""
        self._drop((owner, id))
        self._held[owner, id] = (list(messages), size)
        self._bytes += size
        while len(self._held) > self._most or self._bytes > self._most_bytes:
            self._drop(next(iter(self._held)))

    def find(self, id: str, owner: Owner = None) -> tuple[list[Message], int] | None:
        """Return the messages up to and including an answer, and their size in bytes.

        `None` if the conversation is not stored.
        """
        if (owner, id) not in self._held:
            return None
        self._held.move_to_end((owner, id))
        return self._held[owner, id]

    def forget(self, owner: Owner) -> None:
        """Remove the conversations of an owner."""
        for key in [key for key in self._held if key[0] is owner]:
            self._drop(key)

    def _drop(self, key: tuple[Owner, str]) -> None:
        if (held := self._held.pop(key, None)) is not None:
            self._bytes -= held[1]

"""Conversations that clients go on with by the id of an answer."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from swink_core import Message

__all__ = ["MOST_KEPT", "MOST_KEPT_BYTES", "ConversationStore"]

MOST_KEPT = 1000
"""Answers that are kept, the newest."""

MOST_KEPT_BYTES = 64 * 1024 * 1024
"""Of the conversations that led to them, all together: what two of them share counts twice."""


Owner = object
"""Whose an answer is, and who alone may go on from it: a connection's, or that of a key's owner."""


class ConversationStore:
    """Messages up to an answer, by the answer's id; what was asked for longest ago goes first."""

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._bytes = 0
        self._held: OrderedDict[tuple[Owner, str], tuple[list[Message], int]] = OrderedDict()

    def keep(self, id: str, messages: Sequence[Message], size: int, owner: Owner = None) -> None:
        """Keep a conversation that ends in the answer `id`; `size` is all of it, in bytes."""
        self._drop((owner, id))
        self._held[owner, id] = (list(messages), size)
        self._bytes += size
        while len(self._held) > self._most or self._bytes > self._most_bytes:
            self._drop(next(iter(self._held)))

    def find(self, id: str, owner: Owner = None) -> tuple[list[Message], int] | None:
        """Return the messages up to an answer, it included, and how many bytes they are.

        `None` where it is not kept.
        """
        if (owner, id) not in self._held:
            return None
        self._held.move_to_end((owner, id))
        return self._held[owner, id]

    def forget(self, owner: Owner) -> None:
        """Forget what was an owner's."""
        for key in [key for key in self._held if key[0] is owner]:
            self._drop(key)

    def _drop(self, key: tuple[Owner, str]) -> None:
        if (held := self._held.pop(key, None)) is not None:
            self._bytes -= held[1]

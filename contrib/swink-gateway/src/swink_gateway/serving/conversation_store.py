"""Stored answers: a client sends an answer's id to continue from the answer or read it again."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

from attrs import define, field

from swink_core import Message

__all__ = ["MOST_KEPT", "MOST_KEPT_BYTES", "ConversationStore", "Kept", "Owner"]

MOST_KEPT = 1000
"""The limit for stored answers. If it is exceeded, the oldest answers are dropped."""

MOST_KEPT_BYTES = 64 * 1024 * 1024
"""The limit for the memory of all stored conversations together, in bytes.

A part that two conversations share counts twice.
"""

Owner = object
"""The owner of an answer: a WebSocket connection, or the owner of a key.

Only the owner of an answer can find the answer.
"""


@define(frozen=True)
class Kept:
    """A stored answer: the conversation including the answer, and its size as text and in memory.

    Sizes are in bytes. `response` is the JSON of the answer in the client's protocol after its id,
    and `items` are the ids and the JSON of the request's input items. Both are empty for answers
    over WebSockets, which are not read again.
    """

    messages: Sequence[Message] = field(repr=False)
    size: int
    memory: int
    response: bytes = field(default=b"", repr=False)
    items: Sequence[tuple[Any, bytes]] = field(default=(), repr=False)


class ConversationStore:
    """Stored answers by owner and id, limited in number and size.

    If a limit is exceeded, the owner with the largest share of the limit loses its least recently
    used answers. So an owner with few answers is not affected by other owners.
    """

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._count = 0
        self._bytes: Counter[Owner] = Counter()
        self._held: dict[Owner, OrderedDict[str, Kept]] = {}

    def keep(self, id: str, kept: Kept, owner: Owner = None) -> None:
        """Store an answer."""
        self.delete(id, owner)
        self._held.setdefault(owner, OrderedDict())[id] = kept
        self._bytes[owner] += kept.memory
        self._count += 1
        while self._count > self._most:
            self._drop_oldest(max(self._held, key=lambda one: len(self._held[one])))
        while self._bytes.total() > self._most_bytes:
            self._drop_oldest(max(self._bytes, key=self._bytes.__getitem__))

    def find(self, id: str, owner: Owner = None) -> Kept | None:
        """Return a stored answer, or `None`."""
        held = self._held.get(owner)
        if held is None or id not in held:
            return None
        held.move_to_end(id)
        return held[id]

    def delete(self, id: str, owner: Owner = None) -> bool:
        """Delete an answer; return True if it was stored."""
        held = self._held.get(owner)
        if held is None or id not in held:
            return False
        self._bytes[owner] -= held.pop(id).memory
        self._count -= 1
        if not held:
            del self._held[owner], self._bytes[owner]
        return True

    def delete_all_of(self, id: str, owner: Owner = None) -> bool:
        """Delete an answer under all its ids; return True if it was stored."""
        held = self._held.get(owner)
        if held is None or id not in held:
            return False
        kept = held[id]
        for other in [one for one, answer in held.items() if answer is kept]:
            self.delete(other, owner)
        return True

    def forget(self, owner: Owner) -> None:
        """Delete all answers of an owner."""
        for id in [*self._held.get(owner, ())]:
            self.delete(id, owner)

    def _drop_oldest(self, owner: Owner) -> None:
        self.delete(next(iter(self._held[owner])), owner)

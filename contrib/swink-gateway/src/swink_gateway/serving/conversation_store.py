"""Stored answers: a client sends an answer's id to continue from the answer or read it again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from swink_core import Message

__all__ = ["ConversationStore", "Kept"]

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
    over WebSockets, which are not read again. `outputs` contains the JSON of the answer's items by
    id, because requests can refer to them.
    """

    messages: Sequence[Message] = field(repr=False)
    size: int
    memory: int
    response: bytes = field(default=b"", repr=False)
    items: Sequence[tuple[Any, bytes]] = field(default=(), repr=False)
    outputs: Mapping[str, bytes] = field(factory=dict, repr=False)


@define(eq=False)
class _Shelf:
    """The stored answers of an owner by id, the oldest first, and their memory in bytes.

    `items` maps the ids of output items to the ids of their answers.
    """

    answers: OrderedDict[str, Kept] = field(factory=OrderedDict)
    items: dict[str, str] = field(factory=dict)
    memory: int = 0


class ConversationStore:
    """Stored answers by owner and id, limited in number and size.

    If a limit is exceeded, the owner with the largest share of the limit loses its least recently
    used answers. So an owner with few answers is not affected by other owners.
    """

    def __init__(self, most: int = MOST_KEPT, most_bytes: int = MOST_KEPT_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._count = 0
        self._bytes = 0
        self._shelves: dict[Owner, _Shelf] = {}

    def keep(self, id: str, kept: Kept, owner: Owner = None) -> None:
        """Store an answer.

        If another answer with the same id is stored, the id is ambiguous: that answer is deleted,
        and this one is not stored. The id of an item refers to the item that was stored last.
        """
        if self.delete(id, owner):
            return
        shelf = self._shelves.setdefault(owner, _Shelf())
        shelf.answers[id] = kept
        shelf.items.update(dict.fromkeys(kept.outputs, id))
        shelf.memory += kept.memory
        self._bytes += kept.memory
        self._count += 1
        while self._count > self._most:
            self._drop_oldest(max(self._shelves, key=lambda one: len(self._shelves[one].answers)))
        while self._bytes > self._most_bytes:
            self._drop_oldest(max(self._shelves, key=lambda one: self._shelves[one].memory))

    def has(self, id: str, owner: Owner = None) -> bool:
        """Return True if an answer is stored."""
        shelf = self._shelves.get(owner)
        return shelf is not None and id in shelf.answers

    def find(self, id: str, owner: Owner = None) -> Kept | None:
        """Return a stored answer, or `None`."""
        shelf = self._shelves.get(owner)
        if shelf is None:
            return None
        if id in shelf.answers:
            shelf.answers.move_to_end(id)
        return shelf.answers.get(id)

    def item(self, id: str, owner: Owner = None) -> bytes | None:
        """Return the JSON of an output item of a stored answer, or `None`."""
        shelf = self._shelves.get(owner)
        if shelf is None or (answer := shelf.items.get(id)) is None:
            return None
        shelf.answers.move_to_end(answer)
        return shelf.answers[answer].outputs[id]

    def delete(self, id: str, owner: Owner = None) -> bool:
        """Delete an answer; return True if it was stored."""
        shelf = self._shelves.get(owner)
        if shelf is None:
            return False
        kept = shelf.answers.pop(id, None)
        if kept is None:
            return False
        for item in kept.outputs:
            if shelf.items.get(item) == id:
                del shelf.items[item]
        shelf.memory -= kept.memory
        self._bytes -= kept.memory
        self._count -= 1
        if not shelf.answers:
            del self._shelves[owner]
        return True

    def forget(self, owner: Owner) -> None:
        """Delete all answers of an owner."""
        for id in [*self._shelves[owner].answers] if owner in self._shelves else ():
            self.delete(id, owner)

    def _drop_oldest(self, owner: Owner) -> None:
        self.delete(next(iter(self._shelves[owner].answers)), owner)

"""Limit the memory of complete answers that the clients of one key do not read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from weakref import WeakSet

__all__ = ["SMALL_ANSWER_BYTES", "UnreadAnswers"]

SMALL_ANSWER_BYTES = 64 * 1024
"""The size of an answer up to which it is always sent."""


class UnreadAnswers:
    """The connections with large answers, by the owner of their key.

    An answer that was sent completely stays in memory until its client has read it. `most_bytes` is
    the maximum size of all answers that the connections of one owner have not read.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._sent: defaultdict[str, WeakSet[asyncio.WriteTransport]] = defaultdict(WeakSet)

    def has_room(self, owner: str, transport: asyncio.WriteTransport, size: int) -> bool:
        """Return True if an answer of `size` bytes may be sent to a connection of `owner`."""
        if size <= SMALL_ANSWER_BYTES:
            return True
        sent = self._sent[owner]
        unread = sum(each.get_write_buffer_size() for each in sent if not each.is_closing())
        sent.add(transport)
        return unread + size <= self._most_bytes

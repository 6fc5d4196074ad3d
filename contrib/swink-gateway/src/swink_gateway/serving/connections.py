"""Limits on the number of connections, and on the idle time of a connection.

A client can connect without sending a request, send the head of a request one byte at a time, or
stop reading an answer. The server checks connections without an active request periodically, and
closes those that have made no progress for too long. If the limit is reached, a new connection
replaces the connection that has been idle for longest, so idle connections cannot block the server.
A new connection is refused only if all other connections are busy.

Active requests have separate limits (see `admission`, `calls` and `relay`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import web

from swink_gateway.serving.descriptors import affordable_streams, descriptors_left
from swink_gateway.serving.head_meter import HeadMeter
from swink_gateway.serving.limits import Limits

__all__ = ["LEFT", "TURNED_AWAY", "Connections"]

LEFT = "swink_connections_left_total"
"""Counts connections that were closed because they were idle."""

TURNED_AWAY = "swink_connections_turned_away_total"
"""Counts connections that were refused because of the limit."""

LOOKS = 4
"""How many times idle connections are checked during one idle timeout."""

NEW_SECONDS = 10.0
"""How many seconds a new connection counts as busy, because a request is expected soon."""

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Retry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)


class Connections(web.AppRunner):
    """An `AppRunner` whose server limits the number and the idle time of connections.

    `answering` marks a connection as busy; `counters` count closed and refused connections.
    `_silent` contains the idle connections, longest idle first. For each connection, it contains
    the number of unsent bytes of the last answer, and the time at which the connection became idle.
    `_new` contains the connections that have sent no request. Neither keeps a closed connection in
    memory. `changed` is called when a request arrives or its answer has been sent.
    """

    __slots__ = ("_busy", "_cancel_timer", "_counters", "_limits", "_new", "_silent", "changed")

    def __init__(
        self, app: web.Application, limits: Limits, counters: Counter[str], **options: Any
    ) -> None:
        super().__init__(app, **options)
        self._limits = limits
        self._counters = counters
        self._busy: set[asyncio.Transport] = set()
        self._silent = WeakKeyDictionary[asyncio.Transport, tuple[int, float]]()
        self._new = WeakKeyDictionary[asyncio.BaseTransport, float]()
        self.changed: Callable[[], None] = lambda: None
        self._cancel_timer: Callable[[], None] | None = None

    @property
    def server(self) -> Any:
        """The factory for the protocol of each connection."""
        return None if super().server is None else self._admit

    async def setup(self) -> None:
        """Set up the server, and start the periodic check."""
        await super().setup()
        self._arm()

    async def cleanup(self) -> None:
        """Close the server and all connections."""
        if self._cancel_timer is not None:
            self._cancel_timer()
        await super().cleanup()

    @contextmanager
    def answering(self, transport: asyncio.Transport | None) -> Iterator[None]:
        """Mark a connection as busy until its answer is sent."""
        if transport is None:
            yield
            return
        self._busy.add(transport)
        self._new.pop(transport, None)
        self.changed()
        try:
            yield
        finally:
            self._busy.discard(transport)
            self._note(transport)  # aiohttp forgets the connection, which may have unsent data
            self.changed()

    # -- number ------------------------------------------------------------------------------------

    def expect_request(self, transport: asyncio.BaseTransport) -> None:
        """Count a new connection as busy, because a request is expected soon."""
        self._new[transport] = self._limits.clock.time()

    def has_room(self, connecting: int) -> bool:
        """Return True if the server has capacity for one more connection.

        `connecting` is the number of accepted connections that are not set up yet.
        """
        most = affordable_streams(self._limits.streams)
        if connecting + len(self._busy) + len(self._new) >= most:
            since = self._limits.clock.time() - NEW_SECONDS
            for one, at in list(self._new.items()):
                if at <= since or one.is_closing():
                    del self._new[one]
        return connecting + len(self._busy) + len(self._new) < most

    def close_idle(self) -> None:
        """Close the connections that clients keep open for a next request."""
        for transport in list(self._silent):
            if transport not in self._busy and not transport.get_write_buffer_size():
                transport.close()

    def _admit(self) -> asyncio.BaseProtocol:
        server = super().server
        assert server is not None
        count = len(server.connections)
        if count >= self._limits.connections or not descriptors_left(count, len(self._busy)):
            oldest = next(self._waiting(server), None)
            if oldest is None:
                self._counters[TURNED_AWAY] += 1
                return _TurnedAway()
            self._leave(oldest)
        return HeadMeter(server())

    def _waiting(self, server: web.Server) -> Iterator[asyncio.Transport]:
        """Yield the open connections that have no active request."""
        others = (c.transport for c in server.connections if c.transport not in self._silent)
        for transport in (*self._silent, *others):
            if transport is not None and transport not in self._busy and not _is_gone(transport):
                yield transport

    def _leave(self, transport: asyncio.Transport) -> None:
        self._counters[LEFT] += 1
        transport.abort()

    # -- time --------------------------------------------------------------------------------------

    def _arm(self) -> None:
        clock = self._limits.clock
        self._cancel_timer = clock.call_at(clock.time() + self._limits.silence / LOOKS, self._look)

    def _look(self) -> None:
        """Close connections that have been idle for too long."""
        server, now = super().server, self._limits.clock.time()
        assert server is not None
        for transport in list(self._waiting(server)):
            unread, since = self._silent.get(transport, (None, now))
            if unread != transport.get_write_buffer_size():
                self._note(transport)
            elif now - since >= self._limits.silence:
                self._leave(transport)
        self._arm()

    def _note(self, transport: asyncio.Transport) -> None:
        self._silent.pop(transport, None)
        if not _is_gone(transport):
            self._silent[transport] = (transport.get_write_buffer_size(), self._limits.clock.time())


def _is_gone(transport: asyncio.Transport) -> bool:
    """Return True if a connection is closed and all its data was sent."""
    return transport.is_closing() and not transport.get_write_buffer_size()


class _TurnedAway(asyncio.Protocol):
    """A connection that is refused because the number of connections is limited."""

    def connection_made(self, transport: Any) -> None:
        transport.write(BUSY)
        transport.close()

"""The connections of a server: so many, and none that says or reads nothing for ever.

A client can connect and say nothing, send the head of a request a byte at a time, or ask for an
answer and not read it. Every so often all connections on which no request is being answered are
looked at, and closed where nothing has become of them for too long. Where there are as many as
there may be, a new one takes the place of the oldest that waits for a request, so that silence
keeps nobody out; only where all are busy is it turned away.

Requests that are being answered have limits of their own (see `calls` and `relay`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from attrs import define

from swink_core.providers import Timer
from swink_gateway.relay import Limits

__all__ = ["LEFT", "TURNED_AWAY", "Connections"]

LEFT = "swink_connections_left_total"
"""Counts connections that were closed because nothing came of them."""

TURNED_AWAY = "swink_connections_turned_away_total"
"""Counts connections for which there was no room."""

LOOKS = 4
"""How often a connection is looked at in the time that it may be silent."""

BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Retry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
)


@define
class _Silent:
    """A connection without a request: how much of an answer is not read, and since when."""

    transport: asyncio.Transport
    unread: int
    since: float


class Connections(web.AppRunner):
    """An `AppRunner` whose server has a bound on its connections, in number and in time.

    `answering` says that a connection has a request; `counters` count who had to go.
    """

    __slots__ = ("_busy", "_counters", "_left", "_limits", "_silent", "_timer")

    def __init__(
        self, app: web.Application, limits: Limits, counters: Counter[str], **options: Any
    ) -> None:
        super().__init__(app, **options)
        self._limits = limits
        self._counters = counters
        self._busy: set[web.RequestHandler] = set()
        self._silent: dict[web.RequestHandler, _Silent] = {}
        self._left: set[web.RequestHandler] = set()
        self._timer: Timer | None = None

    @property
    def server(self) -> Any:
        """What makes the protocol of each connection."""
        return None if super().server is None else self._admit

    async def setup(self) -> None:
        """Set the server up, and begin to look at its connections."""
        await super().setup()
        self._arm()

    async def cleanup(self) -> None:
        """Close the server and all connections."""
        if self._timer is not None:
            self._timer.cancel()
        await super().cleanup()

    @contextmanager
    def answering(self, connection: web.RequestHandler) -> Iterator[None]:
        """Take note that a request has come on a connection, until its answer is made."""
        transport = connection.transport
        self._busy.add(connection)
        try:
            yield
        finally:
            self._busy.discard(connection)
            if transport is not None:  # aiohttp forgets it, and it may have words left
                self._note(connection, transport)

    # -- places --------------------------------------------------------------------------------

    def _admit(self) -> asyncio.BaseProtocol:
        server = super().server
        assert server is not None
        connections = server.connections
        if len(connections) >= self._limits.connections:
            self._left.intersection_update(connections)
            if not any(self._leave(one) for one in connections):
                self._counters[TURNED_AWAY] += 1
                return _TurnedAway()
        return server()

    def _leave(self, connection: web.RequestHandler) -> bool:
        """Leave a connection, unless it has a request; tell whether that made room."""
        silent = self._silent.get(connection)
        transport = silent.transport if silent else connection.transport
        if transport is None or connection in self._busy or connection in self._left:
            return False
        self._left.add(connection)
        self._counters[LEFT] += 1
        transport.abort()
        return True

    # -- time ----------------------------------------------------------------------------------

    def _arm(self) -> None:
        clock = self._limits.clock
        self._timer = clock.call_at(clock.time() + self._limits.silence / LOOKS, self._look)

    def _look(self) -> None:
        """Leave connections of which nothing has come since they were silent for too long."""
        server, now = super().server, self._limits.clock.time()
        assert server is not None
        self._forget()
        for connection in server.connections:
            silent = self._silent.get(connection)
            transport = silent.transport if silent else connection.transport
            if transport is None or connection in self._busy:
                continue
            if silent is None or silent.unread != transport.get_write_buffer_size():
                self._note(connection, transport)
            elif now - silent.since >= self._limits.silence:
                self._leave(connection)
        self._arm()

    def _note(self, connection: web.RequestHandler, transport: asyncio.Transport) -> None:
        if len(self._silent) > 2 * self._limits.connections:
            self._forget()
        unread, now = transport.get_write_buffer_size(), self._limits.clock.time()
        self._silent[connection] = _Silent(transport, unread, now)

    def _forget(self) -> None:
        """Forget connections that are gone."""
        server = super().server
        there = set() if server is None else set(server.connections)
        self._left &= there
        self._silent = {one: self._silent[one] for one in there & self._silent.keys()}


class _TurnedAway(asyncio.Protocol):
    """A connection for which there is no room."""

    def connection_made(self, transport: Any) -> None:
        transport.write(BUSY)
        transport.close()

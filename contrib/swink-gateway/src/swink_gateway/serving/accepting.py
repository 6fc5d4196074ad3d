"""Accept connections from a socket that several workers share.

A worker accepts connections while it has room for another answer. A full worker leaves new
connections to the other workers, and closes connections without an active request. If no worker has
room, or a connection has waited for the other workers for a second, a full worker accepts the
connection and refuses its request.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
from collections.abc import Callable

from aiohttp import web

from swink_core.providers import Clock
from swink_gateway.serving.connections import Connections
from swink_gateway.serving.workers import Room

__all__ = ["SharedSite"]

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
"""The interval, in seconds, at which a full worker checks for waiting connections."""

MOST_DEFERRED = 10
"""The number of checks after which a full worker accepts a connection that is still waiting."""

AT_A_TIME = 64
"""The limit for the connections that a full worker accepts in one check."""

AGAIN_SECONDS = 1.0
"""How many seconds to wait after a failure to accept, such as a lack of file descriptors."""


class SharedSite(web.BaseSite):
    """Accepts connections of a listening socket; `room` records which workers have room."""

    def __init__(
        self, connections: Connections, sock: socket.socket, room: Room, clock: Clock
    ) -> None:
        super().__init__(connections)
        self._connections = connections
        self._sock = sock
        self._room = room
        self._clock = clock
        self._connecting: set[asyncio.Task[None]] = set()
        self._is_accepting = False
        self._deferred = 0
        self._cancel_timer: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        return f"http://{self._sock.getsockname()}"

    async def start(self) -> None:
        await super().start()
        self._sock.setblocking(False)
        self._connections.changed = self._update
        self._accept_from_now_on()

    async def stop(self) -> None:
        self._connections.changed = lambda: None
        self._pause()
        self._room.tell(False)
        self._sock.close()
        await super().stop()

    # -- capacity ------------------------------------------------------------------------------

    def _update(self) -> None:
        """Start or stop accepting, depending on whether there is room."""
        has_room = self._connections.has_room(len(self._connecting))
        if has_room == self._is_accepting:
            return
        if has_room:
            self._accept_from_now_on()
        else:
            self._pause()
            self._room.tell(False)
            self._deferred = 0
            if self._room.is_elsewhere():
                self._connections.close_idle()
            self._look_in(LOOK_SECONDS)

    def _accept_from_now_on(self) -> None:
        self._cancel_timer()
        self._is_accepting = True
        self._room.tell(True)
        asyncio.get_running_loop().add_reader(self._sock, self._accept)

    def _pause(self) -> None:
        self._cancel_timer()
        self._is_accepting = False
        asyncio.get_running_loop().remove_reader(self._sock)

    def _look_in(self, seconds: float) -> None:
        self._cancel_timer()
        self._cancel_timer = self._clock.call_at(self._clock.time() + seconds, self._look)

    def _look(self) -> None:
        """Accept connections that no other worker accepts."""
        self._update()
        if self._is_accepting:
            return
        self._look_in(LOOK_SECONDS)
        self._deferred = self._deferred + 1 if _is_waiting(self._sock) else 0
        if self._deferred and (self._deferred > MOST_DEFERRED or not self._room.is_elsewhere()):
            for _ in range(AT_A_TIME):
                if not self._accept():
                    break

    # -- connections ---------------------------------------------------------------------------

    def _accept(self) -> bool:
        """Accept a connection; return False if no connection is waiting."""
        try:
            connection, _ = self._sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return False
        except OSError as error:
            log.warning("no connection can be accepted for %g s: %s", AGAIN_SECONDS, error)
            self._pause()
            self._room.tell(False)
            self._look_in(AGAIN_SECONDS)
            return False
        connection.setblocking(False)
        task = asyncio.ensure_future(self._connect(connection))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)
        self._update()
        return True

    async def _connect(self, connection: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server = self._connections.server
        transport, _ = await loop.connect_accepted_socket(server, connection)
        self._connections.expect_request(transport)


def _is_waiting(sock: socket.socket) -> bool:
    """Return True if a connection waits to be accepted."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))

"""All code that uses private attributes of aiohttp, where aiohttp has no public interface.

`NEEDED` lists these attributes and their purposes. A test reports those that are missing in the
installed release of aiohttp.
"""

from __future__ import annotations

import select
from contextvars import ContextVar
from functools import cache
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey

NEEDED = {
    "TCPConnector._conns": "the pool, by key, of pairs that begin with a connection's protocol",
    "TCPConnector._get": "is awaited for a pooled connection, with a key and traces",
    "TCPConnector._release": "gives a connection back to the pool, or closes it",
    "ResponseHandler._parser": "reads an answer; without one, what arrives waits in a tail",
    "ResponseHandler.should_close": "whether something waits in a tail, among other reasons",
    "StreamReader._read_nowait": "returns what has come of a body before it failed",
}


limits = cache(lambda connect: aiohttp.ClientTimeout(total=None, connect=connect))
"""Return a request's time limits for aiohttp: only connecting is limited; swink limits the rest."""

reused: ContextVar[bool] = ContextVar("reused")
"""Whether the last request of the current task used a connection from the pool."""


class Connector(aiohttp.TCPConnector):
    """A pool that discards connections on which data arrived while they were idle.

    Such data does not belong to a request: it is a second response, a timeout message (HTTP 408) or
    the end of TLS. aiohttp would mistake it for the response to the next request.
    """

    def _release(
        self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False
    ) -> None:
        super()._release(key, protocol, should_close=should_close)
        if protocol.transport is not None:
            protocol._parser = None  # incoming data is not parsed, and its size is limited

    async def _get(self, key: ConnectionKey, traces: list[Any]) -> Any:
        while connection := await super()._get(key, traces):
            if not _is_spoilt(connection.protocol):
                break
            connection.close()
        reused.set(connection is not None)
        return connection

    def close_idle(self) -> None:
        """Close idle connections."""
        for pool in self._conns.values():
            while pool:
                pool.popleft()[0].close()


def _is_spoilt(protocol: Any) -> bool:
    """Return True if data arrived on an idle connection.

    The socket is polled, to find data that the event loop has not read yet.
    """
    socket = protocol.transport and protocol.transport.get_extra_info("socket")
    if protocol.should_close or socket is None or socket.fileno() < 0:
        return bool(protocol.should_close)
    if not hasattr(select, "poll"):  # on Windows, select accepts any descriptor
        return bool(select.select([socket], [], [], 0)[0])
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))


def rest_of(body: aiohttp.StreamReader) -> bytes:
    """Return the received but unread bytes of a body whose transfer failed."""
    return body._read_nowait(-1)

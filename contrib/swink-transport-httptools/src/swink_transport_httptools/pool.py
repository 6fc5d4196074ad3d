"""`Pool`: the connections of one event loop. It reuses idle connections and makes new ones."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import AsyncGenerator
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, TypeAlias

import aiohappyeyeballs

from swink_core import ProviderFailure
from swink_core.providers import LoopClock
from swink_transport_httptools import faults
from swink_transport_httptools.connection import Connection

Origin: TypeAlias = tuple[str, int, bool]
"""A host (a name or an address), a port, and whether TLS is used."""

KEEP_SECONDS = 15.0
"""How long an idle connection is kept. Most servers keep idle connections longer."""

MOST_IDLE = 1000
"""The maximum number of idle connections to one origin; beyond that, the oldest are closed."""

FAMILY_SECONDS = 0.25
"""How long to wait for a connection to one address before also trying the next address.

Source: RFC 8305 section 5.
"""

ADDRESS_SECONDS = 10.0
"""How long the addresses of a host name are cached."""

MOST_NAMES = 1000
"""The maximum number of host names whose addresses are cached."""

_AddressInfo: TypeAlias = tuple[Any, Any, int, str, Any]


class Pool:
    """The connections of an event loop. Their number is not limited; idle ones are reused.

    With a limit, requests would wait for a connection, and no message would explain the delay. The
    connection that became idle last is reused first, so that unneeded connections expire.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._idle: dict[Origin, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._addresses: dict[tuple[str, int], tuple[float, list[_AddressInfo]]] = {}
        self._lookups: dict[tuple[str, int], asyncio.Task[list[_AddressInfo]]] = {}
        self.closed = False

    def take(self, origin: Origin) -> Connection | None:
        """Return an idle connection to `origin`; `None` without an idle connection."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            is_old = self._loop.time() - connection.idle_since > KEEP_SECONDS
            if not is_old and not connection.is_spoilt():
                return connection
            connection.abort()
        return None

    def put(self, origin: Origin, connection: Connection) -> None:
        """Store a connection whose response has been read, or close it if it cannot be reused."""
        if self.closed or not connection.is_usable():
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        idle = self._idle.get(origin)
        if idle is None:
            idle = self._idle[origin] = []
        idle.append(connection)
        if len(idle) > MOST_IDLE:
            idle.pop(0).abort()
        if self._timer is None:
            self._timer = self._loop.call_later(KEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Close connections that have been idle for too long."""
        self._timer = None
        oldest = self._loop.time() - KEEP_SECONDS
        for origin, idle in list(self._idle.items()):
            kept = []
            for connection in idle:
                if connection.is_over or connection.idle_since <= oldest:
                    connection.abort()
                else:
                    kept.append(connection)
            if kept:
                self._idle[origin] = kept
            else:
                del self._idle[origin]
        if self._idle:
            self._timer = self._loop.call_later(KEEP_SECONDS, self._sweep)

    def close_idle(self) -> None:
        """Close idle connections."""
        idle = self._idle
        self._idle = {}
        for connections in idle.values():
            for connection in connections:
                connection.abort()

    def close(self) -> None:
        """Close all connections."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        for lookup in self._lookups.values():
            lookup.cancel()
        for connection in list(self._open):
            connection.abort()

    # -- new connections -------------------------------------------------------------------------

    async def connect(self, origin: Origin, connect_timeout: float | None) -> Connection:
        """Return a new connection. `connect_timeout` is in seconds; `None` means no limit.

        Raises ProviderFailure if the connection fails or is not made in this time.
        """
        host, port, _ = origin
        try:
            async with LoopClock.limit(connect_timeout) as limit:
                return await self._connect(origin)
        except TimeoutError as error:
            if limit.expired():
                raise ProviderFailure(faults.not_in_time(error)) from error
            raise ProviderFailure(faults.no_connection(error, host, port)) from error
        except (OSError, ValueError) as error:
            raise ProviderFailure(faults.no_connection(error, host, port)) from error

    async def _connect(self, origin: Origin) -> Connection:
        host, port, has_tls = origin
        addresses = await self._resolve(host, port)
        found = await aiohappyeyeballs.start_connection(
            addresses, happy_eyeballs_delay=FAMILY_SECONDS, loop=self._loop
        )
        made = Connection(self._loop)
        made.on_lost = self._open.discard
        try:
            if has_tls:
                await self._loop.create_connection(
                    lambda: made, sock=found, ssl=_tls(), server_hostname=host.rstrip(".")
                )
            else:
                await self._loop.create_connection(lambda: made, sock=found)
        except BaseException:
            found.close()
            raise
        if not made.is_over:
            self._open.add(made)
        if self.closed:
            made.abort()
        return made

    async def _resolve(self, host: str, port: int) -> list[_AddressInfo]:
        """Return the addresses of a host. Concurrent calls for the same name share one lookup."""
        try:
            family = socket.AF_INET6 if ip_address(host).version == 6 else socket.AF_INET
        except ValueError:
            pass
        else:
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (host, port))]
        key = (host, port)
        now = self._loop.time()
        known = self._addresses.get(key)
        if known is not None and known[0] > now:
            addresses = known[1]
            addresses.append(addresses.pop(0))  # spread connections over the addresses
            return [*addresses]
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = self._loop.create_task(self._look_up(host, port))
            lookup.add_done_callback(lambda done: self._looked_up(key, done))
        return [*await asyncio.shield(lookup)]

    async def _look_up(self, host: str, port: int) -> list[_AddressInfo]:
        return await self._loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )

    def _looked_up(self, key: tuple[str, int], done: asyncio.Task[list[_AddressInfo]]) -> None:
        self._lookups.pop(key, None)
        if not done.cancelled() and done.exception() is None:
            if len(self._addresses) >= MOST_NAMES:
                self._addresses.clear()
            self._addresses[key] = (self._loop.time() + ADDRESS_SECONDS, done.result())


async def opened() -> AsyncGenerator[Pool, None]:
    """Yield a pool, and close the pool when the generator is closed.

    When an event loop shuts down, it closes open generators. At that time, connections can still be
    closed properly.
    """
    import aiohttp  # noqa: F401  # for `failure_of`; the import needs a free file descriptor

    pool = Pool(asyncio.get_running_loop())
    try:
        yield pool
    finally:
        pool.close()
        await asyncio.sleep(0)  # for the transports to close their sockets


def _tls() -> ssl.SSLContext:
    return _context(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=8)
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Return the TLS configuration with the certificates in `SSL_CERT_FILE` and `SSL_CERT_DIR`.

    OpenSSL reads these environment variables itself. `file` and `folder` are their values, and only
    serve as the key under which the result is cached.
    """
    context = ssl.create_default_context()
    context.set_alpn_protocols(("http/1.1",))
    return context

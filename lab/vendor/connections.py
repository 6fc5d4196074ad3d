"""The connection of one request: pauses, a client that leaves, and connections that break."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from lab.vendor.clock import Clock
from lab.vendor.faults import Fault

__all__ = ["Broken", "Connection", "Left", "reset"]

_POLL = 0.005


class Left(Exception):
    """The client disconnected."""


class Broken(Exception):
    """A fault ended the exchange."""


class Connection:
    """The connection of one request. `on_kill` carries out the fault `kill`."""

    def __init__(
        self, http: web.Request, clock: Clock, on_kill: Callable[[float], Awaitable[None]]
    ) -> None:
        self.http = http
        self._clock = clock
        self._on_kill = on_kill

    def check(self) -> None:
        """Raise Left where the client has left."""
        if self.http.transport is None or self.http.transport.is_closing():
            raise Left

    async def silence(self, seconds: float | None) -> None:
        """Say nothing for `seconds`, or until the client leaves. Raises Left when it does."""
        waiting = asyncio.ensure_future(self._pause(seconds))
        try:
            while not waiting.done():
                self.check()
                await asyncio.wait([waiting], timeout=_POLL)
        finally:
            waiting.cancel()

    async def disconnect(self, fault: Fault) -> None:
        """Cut or reset the connection, or kill the vendor."""
        if fault.kind == "kill":
            await self._on_kill(fault.seconds or 0.0)
        elif fault.kind == "reset":
            reset(self.http.transport)
        elif self.http.transport is not None:
            self.http.transport.close()

    async def _pause(self, seconds: float | None) -> None:
        if seconds is None:
            await asyncio.Event().wait()
        else:
            await self._clock.sleep(seconds)


def reset(transport: Any) -> None:
    """Close a connection so that the other side sees a reset."""
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        linger = struct.pack("ii", 1, 0)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    transport.abort()

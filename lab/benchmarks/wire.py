"""Network reads and connections, counted beside what is measured."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp.client_proto import ResponseHandler


class Wire:
    """Counts network reads and connections of everything in this process that uses aiohttp.

    It is active while the clock runs: it adds one Python call to a network read, equal for all
    contenders, and so each measured run can be verified to be the intended scenario.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.connections = 0

    def install(self) -> None:
        """Put a counter before aiohttp's protocol in each new connection, for this process."""
        made = ResponseHandler.connection_made

        def connection_made(handler: ResponseHandler, transport: asyncio.BaseTransport) -> None:
            self.connections += 1
            transport.set_protocol(_Counted(handler, self))
            made(handler, transport)

        patched: Any = ResponseHandler
        patched.connection_made = connection_made


class _Counted(asyncio.Protocol):
    # Before the protocol and not a wrapper of its data_received: aiohttp calls that itself, with
    # nothing, whenever its buffer has been read, which is neither a read nor ours to slow down.
    def __init__(self, handler: ResponseHandler, wire: Wire) -> None:
        self._handler = handler
        self._wire = wire

    def data_received(self, data: bytes) -> None:
        self._wire.reads += 1
        self._handler.data_received(data)

    def eof_received(self) -> None:
        self._handler.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._handler.connection_lost(exc)

    def pause_writing(self) -> None:
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._handler.resume_writing()

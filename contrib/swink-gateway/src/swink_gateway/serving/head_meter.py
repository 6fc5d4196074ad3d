"""Limit the size of a request's head while it arrives.

aiohttp limits the number of fields and the size of each, but keeps up to 1 MB of an unfinished
head. Clients need no key to send one.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["MOST_HEAD_BYTES", "READ_BYTES", "HeadMeter"]

MOST_HEAD_BYTES = 64 * 1024
"""The maximum size of an unfinished head in bytes."""

READ_BYTES = 16_384
"""The most bytes of a connection that are parsed at a time, before other connections are served.

asyncio reads 256 KiB at a time, and parsing so much takes 0.1 s if each chunk of a body, or each
frame of a WebSocket, has one byte.
"""

TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"Connection: close\r\nContent-Length: 0\r\n\r\n"
)


class HeadMeter(asyncio.Protocol):
    """A protocol that counts the bytes of unfinished heads and passes all data on to `inner`.

    `inner` is aiohttp's protocol. If a head is too large, the connection is closed.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._transport: Any = None
        self._requests = 0
        self._bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pass on the transport, which from now on reads little at a time."""
        self._transport = transport
        self._transport.max_size = READ_BYTES
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Pass data on, and close the connection if a head is too large."""
        self._inner.data_received(data)
        if self._inner._request_count != self._requests or self._is_in_body():
            self._requests, self._bytes = self._inner._request_count, 0
            return
        self._bytes += len(data)
        if self._bytes > MOST_HEAD_BYTES and not self._transport.is_closing():
            if self._inner._current_request is None:
                self._transport.write(TOO_LARGE)
            self._transport.close()

    def _is_in_body(self) -> bool:
        """Return True if the body of the newest request has not arrived completely."""
        request = self._inner._current_request
        if self._inner._messages:
            body = self._inner._messages[-1][1]
        else:
            body = None if request is None else request.content
        return body is not None and not body.is_eof()

    def eof_received(self) -> None:
        """Pass on the end of the data."""
        self._inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        """Pass on the loss of the connection."""
        self._inner.connection_lost(error)

    def pause_writing(self) -> None:
        """Tell `inner` that the client reads slowly."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Tell `inner` that the client reads again."""
        self._inner.resume_writing()

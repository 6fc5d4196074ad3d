"""`Connection`: connect to a server, send requests and parse the responses.

A connection sends one request at a time. Data that arrives while no request is active is not part
of a response to this client: for example a second response, a timeout message (HTTP 408), or the
end of TLS. The connection is then closed, because the data would be taken for the response to the
next request.
`is_spoilt` also polls the socket, because data may have arrived since the event loop last polled.

The parser is as lenient as aiohttp's and has the same limits, so that a server that works with
aiohttp works with this client. httptools stores an incomplete header in memory without a limit.
Therefore `_unparsed` counts the bytes that have arrived since the end of the last complete header,
or of the last piece of the body.
"""

from __future__ import annotations

import asyncio
import select
from typing import Any

import httptools
from multidict import CIMultiDict

from swink_core import ProviderFailure
from swink_transport_httptools import faults
from swink_transport_httptools.inflate import CODINGS

MOST_LINE = 8190
"""The maximum length, in bytes, of a header (name and value) and of the status line's reason."""

MOST_HEADERS = 128

MOST_UNPARSED = 4 * MOST_LINE
"""The maximum number of bytes received before a header or a piece of the body is complete."""

MOST_UNREAD = 256 * 1024
"""While more than this many bytes of a body are unread, the connection receives no further data."""

MOST_AT_ONCE = 512 * 1024
"""The maximum number of bytes of a request's body in one write; other tasks run between writes."""

SWITCHED = 101
"""The status of a response after which the connection uses another protocol."""

UNKNOWN_CODINGS = ("br", "zstd")


class _Refused(Exception):
    """A response is refused, for example because it exceeds a limit or another response follows."""


class Connection(asyncio.Protocol):
    """A connection to a server; httptools calls its methods `on_…`.

    `is_headed`: the head of the response has arrived, and `status`, `headers` and `coding` (`None`:
    not compressed) are set. `is_complete`: the whole response has arrived, or no request has been
    sent yet. `is_reusable`: the server accepts another request on this connection. `is_over`: the
    connection is closed, so no more data will arrive.
    """

    __slots__ = (
        "_awaiting", "_error", "_fault", "_fields", "_is_full", "_is_paused", "_is_until_eof",
        "_loop", "_parser", "_parts", "_poll", "_reason", "_room", "_size", "_transport",
        "_unparsed", "_upload", "coding", "headers", "idle_since", "is_complete", "is_headed",
        "is_over", "is_reusable", "on_lost", "status",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: Any = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._awaiting: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._upload: asyncio.Task[None] | None = None
        self._poll: Any = None
        self._error: Exception | None = None  # of the connection
        self._fault: Exception | None = None  # of the parser
        self._is_full = False
        self._is_paused = False
        self.idle_since = 0.0
        self.is_over = False
        self.on_lost: Any = None
        self._clear()
        self.is_complete = True

    def _clear(self) -> None:
        self._fields: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._reason = 0
        self._unparsed = 0
        self._is_until_eof = False
        self.is_complete = False
        self.is_headed = False
        self.is_reusable = False
        self.status = 0
        self.headers: CIMultiDict[str] = CIMultiDict()
        self.coding: str | None = None

    # -- requests --------------------------------------------------------------------------------

    async def request(self, head: bytes, body: bytes) -> None:
        """Send a request, and return when the head of the response has arrived.

        Raises ProviderFailure if no valid response arrives; the connection cannot be used
        afterwards.
        """
        self._clear()
        if len(body) <= MOST_AT_ONCE:
            self._transport.write(head + body)
        else:
            self._upload = self._loop.create_task(self._write(head, body))
        while not self.is_headed:
            if self._fault is not None:
                raise ProviderFailure(faults.malformed(self._fault, False)) from self._fault
            if self.is_over:
                raise ProviderFailure(faults.no_response(self._error)) from self._error
            await self.wait()

    async def _write(self, head: bytes, body: bytes) -> None:
        """Write a large request in pieces: copying all of it would block the event loop."""
        rest = memoryview(body)
        self._transport.write(head)
        for start in range(0, len(body), MOST_AT_ONCE):
            await asyncio.sleep(0)
            if self._is_full:
                self._room = self._loop.create_future()
                await self._room
            self._transport.write(rest[start : start + MOST_AT_ONCE])

    async def wait(self) -> None:
        """Wait until more data has arrived, or the connection is closed."""
        self._awaiting = self._loop.create_future()
        try:
            await self._awaiting
        finally:
            self._awaiting = None

    @property
    def has_data(self) -> bool:
        """Whether there are unread bytes of the body, which `take` returns."""
        return bool(self._parts)

    def take(self) -> bytes:
        """Return the unread bytes of the body. Requires `has_data`."""
        parts = self._parts
        self._parts = []
        self._size = 0
        if self._is_paused:
            self._is_paused = False
            if not self.is_over:
                self._transport.resume_reading()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def check(self) -> None:
        """Raise ProviderFailure if the response is malformed or was cut off before its end."""
        if self._fault is not None:
            raise ProviderFailure(faults.malformed(self._fault, True)) from self._fault
        if self.is_over:
            raise ProviderFailure(faults.cut_off(self._error)) from self._error

    def is_usable(self) -> bool:
        """Return True if another request can be sent after the current response."""
        is_sent = self._upload is None or self._upload.done()
        return self.is_complete and self.is_reusable and not self.is_over and is_sent

    def is_spoilt(self) -> bool:
        """Return True if an idle connection is closed or has received data."""
        if self.is_over or self._transport.is_closing():
            return True
        poll = self._poll
        if poll is None:
            socket = self._transport.get_extra_info("socket")
            if socket is None or socket.fileno() < 0:
                return True
            if not hasattr(select, "poll"):  # Windows, whose select takes any descriptor
                return bool(select.select([socket], [], [], 0)[0])
            self._poll = poll = select.poll()
            poll.register(socket, select.POLLIN)
        return bool(poll.poll(0))

    def abort(self) -> None:
        """Close the connection at once."""
        if self._upload is not None:
            self._upload.cancel()
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse received data."""
        if self.is_complete:
            self.is_reusable = False
            self.abort()
            return
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
            if self._unparsed > MOST_UNPARSED and not self.is_complete:
                raise httptools.HttpParserError("a line is too long")
        except httptools.HttpParserUpgrade:
            self.is_complete = True
            self.is_reusable = False
        except httptools.HttpParserError as error:
            self.is_reusable = False
            if not self.is_complete:
                self._fault = _cause_of(error)
            self.abort()
        self._wake()
        if self._size > MOST_UNREAD and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """Record that the connection is closed; this completes a body without a length."""
        self.is_over = True
        self._error = error
        if self.is_headed and self._is_until_eof and error is None and self._fault is None:
            self.is_complete = True
        self._parser = None  # it refers to this object
        if self._upload is not None:
            self._upload.cancel()
        if self.on_lost is not None:
            self.on_lost(self)
        self._wake()

    def pause_writing(self) -> None:
        """Pause the upload of a large body."""
        self._is_full = True

    def resume_writing(self) -> None:
        """Continue the upload of a large body."""
        self._is_full = False
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    def _wake(self) -> None:
        awaiting = self._awaiting
        if awaiting is not None and not awaiting.done():
            awaiting.set_result(None)

    # -- httptools -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Prepare for a response, or for the one that follows an informational response (1xx)."""
        if self.is_complete:
            raise _Refused("a second response follows")
        self._fields = []
        self._reason = 0
        self._unparsed = 0

    def on_status(self, reason: bytes) -> None:
        """Check the length of the reason phrase, the text after the status code."""
        self._reason += len(reason)
        if self._reason > MOST_LINE:
            raise _Refused(f"the status line exceeds {MOST_LINE} bytes")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header, or a trailer (a header after the body)."""
        self._unparsed = 0
        if len(name) + len(value) > MOST_LINE:
            raise _Refused(f"a header exceeds {MOST_LINE} bytes")
        self._fields.append((name, value))
        if len(self._fields) > MOST_HEADERS:
            raise _Refused(f"more than {MOST_HEADERS} headers")
        if b"\0" in value:
            raise _Refused("a header contains a null byte")

    def on_headers_complete(self) -> None:
        """Set the status and the headers, unless the response is informational."""
        status = self._parser.get_status_code()
        if 100 <= status < 200 and status != SWITCHED:
            return
        self._unparsed = 0
        headers = CIMultiDict(
            [
                (
                    name.decode("utf-8", "surrogateescape"),
                    value.rstrip(b" \t").decode("utf-8", "surrogateescape"),
                )
                for name, value in self._fields
            ]
        )
        if "Content-Encoding" in headers:
            coding = headers.getall("Content-Encoding")[-1].lower()
            if coding in UNKNOWN_CODINGS:
                raise _Refused(f"the content coding {coding} was not requested")
            self.coding = coding if coding in CODINGS else None
        if "Transfer-Encoding" in headers:
            last = headers.getall("Transfer-Encoding")[-1]
            self._is_until_eof = last.rpartition(",")[2].strip(" \t").lower() != "chunked"
        else:
            self._is_until_eof = "Content-Length" not in headers
        self.status = status
        self.headers = headers
        self.is_headed = True

    def on_body(self, data: bytes) -> None:
        """Store a piece of the body."""
        self._unparsed = 0
        self._parts.append(data)
        self._size += len(data)

    def on_message_complete(self) -> None:
        """Record that the response is complete, unless it is informational."""
        if self.is_headed:
            self.is_complete = True
            self.is_reusable = self._parser.should_keep_alive()


def _cause_of(error: httptools.HttpParserError) -> Exception:
    """Return the `_Refused` that httptools wrapped in `error`, or `error` itself if it has none."""
    cause = error.__context__
    return cause if isinstance(cause, _Refused) else error

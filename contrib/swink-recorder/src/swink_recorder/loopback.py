"""An HTTP/1.1 server on a free loopback port, controlled by tests.

The server writes to the socket directly, so that a test controls every write, can stop in the
middle of a response, and notices at once when the client disconnects. A subclass implements
`respond`. Requests are read in full (`Content-Length` or chunked), and connections are kept alive.

    async with Server() as server:              # in the running loop
    with Server() as server:                    # in a separate thread, for synchronous code
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import msgspec

from swink_core.providers import Clock, LoopClock
from swink_recorder.http1 import chunked_head, take_request

__all__ = ["HOST", "Exchange", "LoopbackServer"]

HOST = "127.0.0.1"
"""The address at which the servers listen; only this machine can connect."""
START_SECONDS = 10


class Exchange:
    """One request and the response to it.

    `path` excludes the query, `query` is decoded; `headers` have lower-case names. `pieces` is the
    number of writes of the body, and `sent` the number of response bytes written to the socket;
    `ended` is true if the response was sent completely. `disconnected_at` is the time at which the
    client disconnected before the response was complete, or `None`. `disconnected_at` and
    `received_at` are in seconds of `time.monotonic`.
    """

    def __init__(
        self,
        connection: _Connection,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        parts = urlsplit(target)
        self.method = method
        self.path = parts.path
        self.query = dict(parse_qsl(parts.query, keep_blank_values=True))
        self.headers = headers
        self.body = body
        self.received_at = time.monotonic()
        self.disconnected_at: float | None = None
        self.pieces = 0
        self.sent = 0
        self.ended = False
        self._connection = connection
        self._disconnected = asyncio.Event()

    @property
    def json(self) -> Any:
        """The request's body as JSON data."""
        return msgspec.json.decode(self.body)

    async def disconnected(self) -> float:
        """Wait until the client has disconnected and return `disconnected_at`.

        Tests use this method to check that a connection was closed. Call it in the server's loop.
        """
        await self._disconnected.wait()
        assert self.disconnected_at is not None
        return self.disconnected_at

    async def start(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        """Send the response's head; the body follows in HTTP chunks."""
        await self.raw(chunked_head(status, headers or {}))

    async def write(self, data: bytes) -> None:
        """Send a part of the body in a single write; do nothing for empty data."""
        if data:
            await self.raw(b"%x\r\n%s\r\n" % (len(data), data))
            self.pieces += 1

    async def end(self) -> None:
        """End the body; the connection stays open for the next request."""
        await self.raw(b"0\r\n\r\n")
        self.ended = True

    async def raw(self, data: bytes) -> None:
        """Send bytes outside HTTP chunks, and wait while the client does not read."""
        await self._connection.send(data)
        self.sent += len(data)

    async def pause(self, seconds: float = 0.001) -> None:
        """Wait, so that the client does not receive earlier and later data in a single read.

        The server's clock measures the time.
        """
        await self._connection.server.clock.sleep(seconds)

    def close(self) -> None:
        """Close the connection once everything has been sent."""
        self._connection.close()

    def reset(self) -> None:
        """Reset the connection (TCP RST), without sending more."""
        self._connection.reset()

    def left(self) -> None:
        """Record that the client has disconnected."""
        if not self.ended and self.disconnected_at is None:
            self.disconnected_at = time.monotonic()
            self._disconnected.set()


class LoopbackServer:
    """The base class of test servers; `exchanges` are all requests in the order of their arrival.

    `tls` is an SSL context for servers; with it, the server uses HTTPS. `clock` measures the
    server's pauses (`None`: in the event loop's time).
    """

    def __init__(self, tls: ssl.SSLContext | None = None, clock: Clock | None = None) -> None:
        self.exchanges: list[Exchange] = []
        self.clock = clock or LoopClock()
        self._tls = tls
        self._listening: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[_Connection] = set()
        self._errors: list[BaseException] = []
        self._thread: _ServerThread | None = None
        self._port = 0

    async def respond(self, exchange: Exchange) -> None:
        """Answer one request. The coroutine is cancelled when the client disconnects."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """The server's URL, without a trailing slash."""
        return f"http{'s' if self._tls else ''}://{HOST}:{self._port}"

    async def start(self) -> None:
        """Listen on a free port."""
        self._bind(asyncio.get_running_loop())
        await self._accept()

    def listen(self, other: LoopbackServer) -> None:
        """Listen on a free port, in the event loop of the server `other`.

        May be called from any thread.
        """
        self._bind(other._loop)
        asyncio.run_coroutine_threadsafe(self._accept(), other._loop)

    def _bind(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # asyncio sends small writes at once (TCP_NODELAY) only if the socket states its protocol
        self._listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        self._listening.bind((HOST, 0))
        self._listening.listen()
        self._port = self._listening.getsockname()[1]

    async def _accept(self) -> None:
        assert self._listening is not None
        # `create_server` would lose a server that it has started if it were cancelled
        self._server = await self._loop.create_server(
            lambda: _Connection(self), sock=self._listening, ssl=self._tls, start_serving=False
        )
        await self._server.start_serving()

    async def caught_up(self) -> None:
        """Wait until the server has processed earlier actions of clients, such as disconnects.

        To do so, it opens and closes a connection, which the server handles after these actions.
        The method can be called in any event loop.
        """
        reader, writer = await asyncio.open_connection(HOST, self._port)
        writer.write_eof()
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async def aclose(self) -> None:
        """Reset all connections. Raises the exceptions that `respond` has raised."""
        if self._server is not None:
            self._server.close()
            tasks = [c.task for c in self._connections if c.task is not None]
            for connection in list(self._connections):
                connection.abort()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None
        elif self._listening is not None:
            self._listening.close()
        if self._errors:
            raise self._errors.pop(0)

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        self._thread = _ServerThread(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._thread is not None
        self._thread.stop()


class _Connection(asyncio.Protocol):
    """The connection of a client, whose requests are answered in order, in separate tasks."""

    def __init__(self, server: LoopbackServer) -> None:
        self.task: asyncio.Task[None] | None = None
        self.server = server
        self._input = bytearray()
        self._exchange: Exchange | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.server._connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._input += data
        self._next()

    def eof_received(self) -> bool:
        return False  # close the connection, to find out whether the client has left

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self.server._connections.discard(self)
        if self._exchange is not None:
            self._exchange.left()
        if self.task is not None:
            self.task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def send(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client has disconnected")
        self._transport.write(data)
        await self._writable.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        if self._transport is not None:
            at_once = struct.pack("ii", 1, 0)  # struct linger: on, for no seconds
            connection = self._transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self._transport.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _next(self) -> None:
        if self.task is None and (request := take_request(self._input)) is not None:
            exchange = self._exchange = Exchange(self, *request)
            self.server.exchanges.append(exchange)
            self.task = asyncio.get_running_loop().create_task(self._answer(exchange))

    async def _answer(self, exchange: Exchange) -> None:
        try:
            await self.server.respond(exchange)
        except ConnectionResetError:
            pass  # already recorded by connection_lost
        except Exception as error:
            self.server._errors.append(error)
            self.abort()
        else:
            self.task = None
            self._next()


class _ServerThread:
    """A server with an event loop in a separate thread."""

    def __init__(self, server: LoopbackServer) -> None:
        self._server = server
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="swink-loopback", daemon=True)
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise RuntimeError("the loopback server did not start")

    def stop(self) -> None:
        """Close the server, and raise the exceptions that `respond` has raised."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except Exception as error:
            self._error = error

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._server:
            self._ready.set()
            await self._stop.wait()

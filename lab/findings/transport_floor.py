"""Print how much of a short call is the HTTP client: aiohttp, asyncio streams, a bare protocol.

    python -m lab.findings.transport_floor

Each sends the same request to a server on loopback, over one connection that stays
open, and reads the body of the response. None decodes it. The figure is the processor time of the
client's process; the server is another process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from collections.abc import Awaitable, Callable
from multiprocessing.connection import Connection

import aiohttp

BODY = b'data: {"choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\ndata: [DONE]\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(
    BODY
)
SENT = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(SENT)
) + SENT

CALLS = 1000
ROUNDS = 5

LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")

Call = Callable[[], Awaitable[object]]


class Answering(asyncio.Protocol):
    """The server's side of a connection: it answers every request alike."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write, and that nothing came yet."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        """Answer each request as soon as its body is complete."""
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self._data, 0, end + 2)
            size = end + 4 + (int(length[1]) if length else 0)
            if len(self._data) < size:
                return
            self._data = self._data[size:]
            self._transport.write(HEAD + BODY)


def serve(ready: Connection) -> None:
    """Serve until the process is ended; send the port first."""

    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Answering, "127.0.0.1", 0)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


class Reading(asyncio.Protocol):
    """The client's side of a connection, with as little work as possible."""

    def __init__(self) -> None:
        self._data = b""
        self._waiting: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Give out the body when it is complete."""
        self._data += data
        if len(self._data) == len(HEAD) + len(BODY) and self._waiting is not None:
            self._waiting.set_result(self._data[len(HEAD) :])
            self._data = b""

    async def call(self) -> bytes:
        """Send the request and return the body."""
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(REQUEST)
        return await self._waiting


async def measured(call: Call) -> float:
    """Return the microseconds of processor time of one call."""
    for _ in range(50):
        assert await call() == BODY
    began = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - began) / CALLS * 1_000_000


async def of_aiohttp(port: int) -> float:
    """Measure aiohttp's client."""
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:

        async def call() -> bytes:
            async with session.post(url, data=SENT, headers=headers) as response:
                return await response.content.read()

        return await measured(call)


async def of_streams(port: int) -> float:
    """Measure asyncio's streams, with the head searched for the length."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def call() -> bytes:
        writer.write(REQUEST)
        head = await reader.readuntil(b"\r\n\r\n")
        length = LENGTH.search(head)
        assert length is not None
        return await reader.readexactly(int(length[1]))

    try:
        return await measured(call)
    finally:
        writer.close()


async def of_protocol(port: int) -> float:
    """Measure a protocol that counts bytes and parses nothing."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.create_connection(Reading, "127.0.0.1", port)
    try:
        return await measured(protocol.call)
    finally:
        transport.close()


CLIENTS = {"aiohttp": of_aiohttp, "asyncio streams": of_streams, "bare protocol": of_protocol}


def main() -> None:
    """Print one line for each client."""
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        port = ours.recv()
        found = {
            name: min(asyncio.run(client(port)) for _ in range(ROUNDS))
            for name, client in CLIENTS.items()
        }
    finally:
        server.terminate()
        server.join()
    for name, microseconds in found.items():
        print(f"{name:16} {microseconds:6.0f} µs   {microseconds / found['aiohttp']:.2f}")


if __name__ == "__main__":
    main()

"""A server in memory, and what an HTTP client reads from it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import aiohappyeyeballs
from attrs import define, field, frozen

from lab.transports.damaged import NEXT, Case, Ending
from swink_core import ProviderFailure
from swink_core.providers import HTTPClient, HTTPRequest, HTTPResponse

WAITS = "waits"
"""The end of a response that a client takes for unfinished, while the server sends nothing more."""

TURNS = 50
"""Turns of the event loop after which a client that has received everything is waiting."""


class _Transport(asyncio.Transport):
    """A connection to the server of a case."""

    def __init__(self, protocol: Any, server: _Server) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._protocol = protocol
        self._server = server
        self._is_paused = False
        self._is_closing = False
        self._feeding: list[bytes] = []
        self._ending: Ending = "silence"

    def play(self, reads: tuple[bytes, ...], ending: Ending) -> None:
        """Let the client receive these reads, one in each turn of the event loop."""
        self._feeding = list(reads)
        self._ending = ending
        self._loop.call_soon(self._go_on)

    @property
    def is_played(self) -> bool:
        """Whether the client has received everything that it may receive."""
        return self._is_closing or not self._feeding

    def _go_on(self) -> None:
        if self._is_closing or self._is_paused:
            return
        if self._feeding:
            self._protocol.data_received(self._feeding.pop(0))
            self._loop.call_soon(self._go_on)
        elif self._ending != "silence":
            self._lose(ConnectionResetError(104, "reset") if self._ending == "reset" else None)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._protocol.connection_lost, error)

    def write(self, data: Any) -> None:
        """Receive a request, or a part of one."""
        if not self._is_closing:
            self._server.receive(self, bytes(data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return a socket that never has data."""
        return self._server.quiet if name == "socket" else default

    def is_closing(self) -> bool:
        """Tell whether the connection is closed."""
        return self._is_closing

    def close(self) -> None:
        """Close the connection."""
        self._lose(None)

    def abort(self) -> None:
        """Close the connection."""
        self._lose(None)

    def pause_reading(self) -> None:
        """Stop the reads."""
        self._is_paused = True

    def resume_reading(self) -> None:
        """Continue the reads."""
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._go_on)


@define
class _Server:
    """Answers the first request with a case, and the next one with `NEXT`."""

    quiet: socket.socket
    case: Case | None = None
    used: list[_Transport] = field(factory=list)
    """The connections, in the order of the requests."""

    _begun: bytes = b""

    def receive(self, transport: _Transport, data: bytes) -> None:
        """Answer a request, once its body has come."""
        self._begun += data
        if not self._begun.endswith(b"\r\n\r\n{}"):
            return
        self._begun = b""
        assert self.case is not None
        if self.used:
            transport.play((NEXT,), "silence")
        else:
            transport.play(self.case.reads, self.case.ending)
        self.used.append(transport)


@contextmanager
def in_memory() -> Iterator[_Server]:
    """Connect the clients of the running event loop to a server in memory."""
    loop: Any = asyncio.get_running_loop()
    quiet, other = socket.socketpair()
    server = _Server(quiet)
    start = aiohappyeyeballs.start_connection

    async def start_connection(*_: Any, **__: Any) -> socket.socket:
        return quiet

    async def create_connection(factory: Callable[[], Any], **_: Any) -> tuple[_Transport, Any]:
        protocol = factory()
        transport = _Transport(protocol, server)
        protocol.connection_made(transport)
        return transport, protocol

    vars(aiohappyeyeballs)["start_connection"] = start_connection
    loop.create_connection = create_connection
    try:
        yield server
    finally:
        vars(aiohappyeyeballs)["start_connection"] = start
        del loop.create_connection
        quiet.close()
        other.close()


@frozen
class Outcome:
    """How a client reads a response.

    `status` is 0 without a head. `headers` have lower-case names, because lookups ignore the case.
    `end` is `complete`, the kind, code and phase of a failure, or `WAITS`. `next` says how the next
    request went: on the same connection (`reused`) or a `new` one; it contains the body unless that
    is the right one. It is empty without a next request.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    end: str
    next: str

    @property
    def has_failed(self) -> bool:
        """Whether the client reported a failure."""
        return self.end not in ("complete", WAITS)


@define
class _Reading:
    response: HTTPResponse | None = None
    body: bytes = b""
    end: str = WAITS

    async def read(self, client: HTTPClient) -> None:
        """Send a request and read the whole response."""
        try:
            request = HTTPRequest("http://127.0.0.1:9/", b"{}", {"Content-Type": "a/b"})
            self.response = await client.send(request, None)
            async for data in self.response:
                self.body += data
            self.end = "complete"
        except ProviderFailure as error:
            failure = error.failure
            self.end = f"{failure.kind} {failure.code} {failure.phase}"


async def outcome_of(client: HTTPClient, server: _Server, case: Case) -> Outcome:
    """Let a client read a case."""
    server.case = case
    server.used = []
    reading = await _read(client, server)
    following = ""
    if reading.end == "complete":
        again = await _read(client, server)
        following = "reused" if server.used[0] is server.used[-1] else "new"
        if (again.body, again.end) != (b"right", "complete"):
            following += f" {again.body!r} {again.end}"
    client.close_idle()
    response = reading.response
    return Outcome(
        status=0 if response is None else response.status,
        headers=() if response is None else _lower(response.headers.items()),
        body=reading.body,
        end=reading.end,
        next=following,
    )


def _lower(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in headers)


async def _read(client: HTTPClient, server: _Server) -> _Reading:
    reading = _Reading()
    asked = len(server.used)
    task = asyncio.create_task(reading.read(client))
    left = TURNS
    while left and not (task.done() and server.used[-1].is_played):
        await asyncio.sleep(0)
        if len(server.used) > asked and server.used[-1].is_played:
            left -= 1
    if not task.done():
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    else:
        task.result()  # raises what is a fault of the client
    for _ in range(3):  # what comes late is received before the next request
        await asyncio.sleep(0)
    if reading.response is not None:
        reading.response.close()
    return reading

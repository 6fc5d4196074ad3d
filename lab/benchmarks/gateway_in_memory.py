"""A gateway whose clients and provider are in memory, so that only its own work is counted.

It has a client's API key, a ledger in memory, a limit and a guard.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from lab.findings.gateways import key_of, owner
from swink_core import Client
from swink_gateway.policy.config import Source
from swink_gateway.serving.server import Gateway
from swink_testing.driver import MemoryHTTPClient, MemoryResponse

__all__ = ["answer_requests"]

LIMITS = {"requests_per_minute": 1_000_000, "guards": ["words"]}

CONFIGURATION = (
    owner("ann", **LIMITS)
    + """
[guards.words]
block = ["project zephyr"]
"""
)

BODY = msgspec.json.encode(
    {
        "model": "openai/gpt-4o",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
    }
)

REQUEST = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    b"Content-Type: application/json\r\nAuthorization: Bearer %b\r\nContent-Length: %d\r\n\r\n%b"
    % (key_of("ann").encode(), len(BODY), BODY)
)


class Connection(asyncio.Transport):
    """A connection whose client reads everything at once."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.sent = bytearray()
        self.is_closed = False
        self.ended = asyncio.Event()

    def write(self, data: Any) -> None:
        self.sent += data
        if self.sent.endswith(b"0\r\n\r\n"):
            self.ended.set()

    def writelines(self, data: Any) -> None:
        self.write(b"".join(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: nothing is buffered."""

    def pause_reading(self) -> None:
        """Do nothing: the client sends one request at a time."""

    def resume_reading(self) -> None:
        """Do nothing, likewise."""

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


async def answer_requests(
    reads: Sequence[bytes], head: dict[str, str], own: dict[str, Any], text: str, count: int
) -> None:
    """Answer `count` requests of one client, one after the other, and check each text.

    `reads` are the network reads of the provider's answer, and `head` are its headers. `own` are
    the providers' options.
    """

    class Memory(MemoryHTTPClient):
        async def send(self, request: Any, connect_timeout: float | None) -> MemoryResponse:
            return MemoryResponse(list(reads), headers=head)

    config = Source("", CONFIGURATION).config({})
    async with (
        Client(http=Memory(), providers=own) as client,
        Gateway(client, config=config) as gateway,
    ):
        connection = Connection()
        protocol: Any = gateway._runner.server()
        protocol.connection_made(connection)
        for _ in range(count):
            connection.sent.clear()
            connection.ended.clear()
            protocol.data_received(REQUEST)
            await connection.ended.wait()
            if _text_of(bytes(connection.sent)) != text:
                raise AssertionError(f"unexpected answer: {bytes(connection.sent[:500])!r}")
        protocol.connection_lost(None)


def _text_of(answer: bytes) -> str:
    """Return the text of a streamed Chat Completion."""
    lines = [line[6:] for line in answer.splitlines() if line.startswith(b'data: {"')]
    chunks = [msgspec.json.decode(line) for line in lines]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)

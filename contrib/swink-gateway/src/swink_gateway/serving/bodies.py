"""Request bodies: received within limits, and parsed outside the event loop if large."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

from aiohttp import web

from swink_gateway.protocols import Asked, BadRequest, ClientProtocol
from swink_gateway.protocols.bodies import (
    MOST_BODY_BYTES,
    asked_of,
    json_of,
    least_memory,
    memory_of,
)
from swink_gateway.protocols.failures import Refused, of_bad_request

__all__ = ["TOO_LARGE", "check_size", "has_arrived", "is_too_large", "memory_needed", "read_body"]
__all__ += ["receive_body", "size_of", "within"]

LARGE_BODY_BYTES = 48 * 1024

MOST_SMALL_CHUNKS = 1_000
"""The number of chunks that may have any size. Each chunk takes time, whatever its size."""

LEAST_CHUNK = 16
"""The least average size, in bytes, of the chunks of a body that has more of them."""

READS = 3
"""How many rounds of the event loop a body may arrive after its head to count as complete."""

TOO_LARGE = 413

T = TypeVar("T")


def size_of(request: web.Request) -> int:
    """Return the size of a body in bytes: the Content-Length, or else the bytes received so far."""
    length = request.content_length
    return request.content.total_bytes if length is None else length


def is_too_large(request: web.Request) -> bool:
    """Return True if a body is larger than the limit, as far as its size is known."""
    return size_of(request) > MOST_BODY_BYTES


def check_size(request: web.Request) -> None:
    """Raise Refused for a body that is larger than the limit, even if it has not arrived yet."""
    if is_too_large(request):
        raise _too_large()


def _too_large() -> Refused:
    return Refused(of_bad_request(f"the body has more than {MOST_BODY_BYTES} bytes"), TOO_LARGE)


async def has_arrived(request: web.Request) -> bool:
    """Return True if the complete body has arrived, or arrives with the next reads.

    Clients send the head and the body of a request one after the other.
    """
    for _ in range(READS):
        if request.content.is_eof():
            return True
        await asyncio.sleep(0)
    return request.content.is_eof()


async def receive_body(request: web.Request, hold: Callable[..., None]) -> tuple[bytes, int]:
    """Receive a complete body, and reserve memory while it arrives.

    Return the body, and the number of bytes that it takes once it is parsed. `hold` is called
    repeatedly with the number of bytes that the body takes in memory so far, and at the end with
    the number that the parsed body takes, and with True. Raises Refused for a body that is too
    large.
    """
    body = bytearray()
    chunks = 0
    while True:
        piece, is_end = await request.content.readchunk()
        if not (piece or is_end):
            break
        body += piece
        chunks += is_end
        if chunks > MOST_SMALL_CHUNKS and len(body) < LEAST_CHUNK * chunks:
            if request.transport is not None:
                request.transport.pause_reading()  # the rest would be parsed until the end
            why = f"the chunks of the body are too small: send at least {LEAST_CHUNK} bytes in each"
            raise Refused(of_bad_request(why), 400)
        if not request.content.is_eof():
            await asyncio.sleep(0)  # `readchunk` does not wait while data has arrived
        if len(body) > MOST_BODY_BYTES:
            raise _too_large()
        hold(least_memory(size_of(request)))
    received = bytes(body)
    body.clear()
    memory = await memory_needed(received)
    hold(memory, True)
    return received, memory


async def memory_needed(body: bytes) -> int:
    """Return the memory in bytes that a body takes until its request is answered."""
    if len(body) > LARGE_BODY_BYTES:
        return await asyncio.to_thread(memory_of, body)
    return memory_of(body)


async def within(read: Callable[[], T], size: int) -> T:
    """Call `read`, which parses `size` bytes, and return its result.

    Raises Refused if the bytes are not a valid request.

    A large body is parsed in a thread, so that it does not block other clients.
    """
    try:
        return await asyncio.to_thread(read) if size > LARGE_BODY_BYTES else read()
    except BadRequest as error:
        raise Refused(of_bad_request(error), 400) from error
    except RecursionError as error:
        raise Refused(of_bad_request("the body is nested too deeply"), 400) from error


async def read_body(
    protocol: ClientProtocol, body: bytes, path: Mapping[str, str], headers: Mapping[str, str]
) -> Asked:
    """Parse a body as a request of `protocol`. Raises Refused if it is invalid."""
    return await within(lambda: asked_of(protocol, json_of(body), path, headers), len(body))

"""What clients send, read within bounds, and refused where it is no request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from swink_core import Error
from swink_gateway.protocols import Asked, BadRequest, ClientProtocol
from swink_gateway.protocols.failures import of_bad_request

__all__ = ["MOST_BLOCKS", "MOST_BODY_BYTES", "MOST_BYTES", "MOST_DEPTH", "MOST_ELEMENTS", "Refused"]
__all__ += ["asked_of", "come", "json_of", "read_body", "size_of", "within"]

MOST_BODY_BYTES = 32 * 1024 * 1024
"""Of a request: the smallest of coding agents' have 40 kB, those with images some MB."""

MOST_BYTES = 1024 * 1024 * 1024
"""Of all requests that are being answered: each is held until it is."""

LARGE_BODY_BYTES = 48 * 1024

MOST_ELEMENTS = 500_000
"""Objects and lists of a body, brackets in its texts among them: each takes memory."""

MOST_DEPTH = 100
"""Of objects and lists in one another: what is looked at by functions that call themselves."""

MOST_NAME = 500
"""Characters of a model's name, which is said again in answers, logs and errors."""

MOST_BLOCKS = 10_000
"""Of a conversation, and tools: each is looked at before a provider is asked."""


class Refused(Exception):
    """A request that nobody is asked about, and how its client is told."""

    def __init__(self, error: Error, status: int, code: str | None = None) -> None:
        super().__init__(error.error_message)
        self.error = error
        self.status = status
        self.code = code  # the protocol's own word, where the kind of the error has none


T = TypeVar("T")


def size_of(request: web.Request) -> int:
    """Return how many bytes a request has: as it says, or as have come where it does not."""
    length = request.content_length
    return request.content.total_bytes if length is None else min(length, MOST_BODY_BYTES)


async def come(request: web.Request, hold: Callable[[int], None]) -> bytes:
    """Return the body of a request when it has come; `hold` is told of its size meanwhile."""
    body = bytearray()
    while piece := await request.content.readany():
        body += piece
        if len(body) > MOST_BODY_BYTES:
            raise Refused(of_bad_request(f"the body has more than {MOST_BODY_BYTES} bytes"), 413)
        hold(size_of(request))
    return bytes(body)


def json_of(body: bytes) -> Any:
    """Return JSON data, whatever its type is called. Raises BadRequest."""
    if body.count(b"{") + body.count(b"[") > MOST_ELEMENTS:
        raise BadRequest(f"the body has more than {MOST_ELEMENTS} objects and lists")
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if _is_deeper(data, MOST_DEPTH):
        raise BadRequest(f"the body is nested too deeply: more than {MOST_DEPTH} levels")
    return data


def _is_deeper(data: Any, most: int) -> bool:
    """Tell whether data has more levels, going down one after the other."""
    level = [data] if isinstance(data, dict | list) else []
    for _ in range(most):
        inner = [v for one in level for v in (one.values() if isinstance(one, dict) else one)]
        level = [value for value in inner if isinstance(value, dict | list)]
        if not level:
            return False
    return True


def asked_of(
    protocol: ClientProtocol, data: Any, path: Mapping[str, str], headers: Mapping[str, str]
) -> Asked:
    """Return what JSON data asks for. Raises BadRequest."""
    asked = protocol.read(data, path, headers)
    if len(asked.model) > MOST_NAME:
        raise BadRequest(f"the name of the model has more than {MOST_NAME} characters")
    if not asked.model.isprintable():
        raise BadRequest("the name of the model has characters that cannot be printed")
    contents = [message.content for message in asked.context.messages]
    blocks = sum(1 if isinstance(content, str) else len(content) for content in contents)
    if max(blocks, len(contents)) + len(asked.context.tools) > MOST_BLOCKS:
        raise BadRequest(f"the conversation has more than {MOST_BLOCKS} messages and blocks")
    return asked


async def within(read: Callable[[], T], size: int) -> T:
    """Return what reading so many bytes gives. Raises Refused.

    Many are read in a thread: what a stranger sends does not keep others waiting.
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
    """Return what a body asks for. Raises Refused."""
    return await within(lambda: asked_of(protocol, json_of(body), path, headers), len(body))

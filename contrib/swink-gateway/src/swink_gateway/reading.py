"""What clients send, read within bounds, and refused where it is no request."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from swink_core import Error
from swink_gateway.failures import of_bad_request
from swink_gateway.protocols import Asked, BadRequest, ClientProtocol

__all__ = ["MOST_BLOCKS", "MOST_ELEMENTS", "Refused", "json_of", "read_body"]

LARGE_BODY_BYTES = 48 * 1024

MOST_ELEMENTS = 500_000
"""Objects and lists of a body, brackets in its texts among them: each takes memory."""

MOST_BLOCKS = 10_000
"""Of a conversation, and tools: each is looked at before a provider is asked."""


class Refused(Exception):
    """A request that nobody is asked about, and how its client is told."""

    def __init__(self, error: Error, status: int, code: str | None = None) -> None:
        super().__init__(error.error_message)
        self.error = error
        self.status = status
        self.code = code  # the protocol's own word, where the kind of the error has none


def json_of(body: bytes) -> Any:
    """Return JSON data. Raises BadRequest."""
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error


async def read_body(
    protocol: ClientProtocol,
    body: bytes,
    path: Mapping[str, str],
    headers: Mapping[str, str],
) -> Asked:
    """Return what a body asks for, whatever its type is called. Raises Refused.

    A large one is read in a thread: what a stranger sends does not keep others waiting.
    """

    def read() -> Asked:
        if body.count(b"{") + body.count(b"[") > MOST_ELEMENTS:
            raise BadRequest(f"the body has more than {MOST_ELEMENTS} objects and lists")
        asked = protocol.read(json_of(body), path, headers)
        contents = [message.content for message in asked.context.messages]
        blocks = sum(1 if isinstance(content, str) else len(content) for content in contents)
        if max(blocks, len(contents)) + len(asked.context.tools) > MOST_BLOCKS:
            raise BadRequest(f"the conversation has more than {MOST_BLOCKS} messages and blocks")
        return asked

    try:
        return await asyncio.to_thread(read) if len(body) > LARGE_BODY_BYTES else read()
    except BadRequest as error:
        raise Refused(of_bad_request(error), 400) from error
    except RecursionError as error:
        raise Refused(of_bad_request("the body is nested too deeply"), 400) from error

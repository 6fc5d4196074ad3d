"""The interface of HTTP clients and responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol, runtime_checkable

from attrs import define, field


@define
class HTTPRequest:
    """An HTTP request. The repr hides `headers`, which may contain credentials."""

    url: str
    body: bytes = field(default=b"", repr=False)
    headers: dict[str, str] = field(factory=dict, repr=False)
    method: str = "POST"


@define
class ResponseHead:
    """The status and headers of a response. `at` is when they arrived, by the call's clock."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    """The headers; `headers[name]` ignores the case of the name."""
    at: float = field(repr=False)


class HTTPResponse(Protocol):
    """An HTTP response. Iterate over it to read its body in pieces.

    `status` is the HTTP status. Each piece of the body (`async for data in response`) has at least
    one byte. Iteration raises ProviderFailure if the connection fails. Code that does not read a
    body to its end must call `close`.
    """

    status: int
    headers: Mapping[str, str]
    """The headers; `headers[name]` ignores the case of the name."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the response itself, which is the iterator over its body."""

    async def __anext__(self) -> bytes:
        """Return the bytes that have arrived, at least one."""

    def close(self) -> None:
        """Close the connection at once; do nothing if the body was read to its end."""


@runtime_checkable
class HTTPClient(Protocol):
    """Sends requests, without following redirects.

    A client that sends nothing itself, for example because it only stores the requests, may set its
    attribute `sends_nothing` to true. Caches and recorders then ignore its calls.
    """

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Send a request, and return the response as soon as its headers have arrived.

        `connect_timeout` is in seconds; `None` means no limit. Raises ProviderFailure if the
        connection fails.
        """

    def close_idle(self) -> None:
        """Close idle connections, to free their file descriptors."""

    async def aclose(self) -> None:
        """Close all connections."""

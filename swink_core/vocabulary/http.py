"""The interface of HTTP clients and responses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Protocol, runtime_checkable

from attrs import define, field


@define
class HTTPRequest:
    """What to send. `headers` may carry credentials and never show in a repr."""

    url: str
    body: bytes = field(default=b"", repr=False)
    headers: dict[str, str] = field(factory=dict, repr=False)
    method: str = "POST"


@define
class ResponseHead:
    """Status and headers of a response, with its time in seconds of the clock."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    """Looked up without regard to case."""
    at: float = field(repr=False)


class HTTPResponse(Protocol):
    """An HTTP response. Iterate over it to read its body in pieces.

    `status` is the HTTP status. `headers` are looked up without regard to case. Iterate over it
    (`async for data in response`) for the pieces of the body, each at least a byte; that raises
    ProviderFailure when the connection fails. Close it where the body is not read to its end.
    """

    status: int
    headers: Mapping[str, str]
    """Looked up without regard to case."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the response itself."""

    async def __anext__(self) -> bytes:
        """Return the available bytes, at least one."""

    def close(self) -> None:
        """Close the connection at once, unless the body was read to its end."""


@runtime_checkable
class HTTPClient(Protocol):
    """Sends requests. Redirects are not followed."""

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Send a request and return when the response's headers have come.

        `connect_timeout` is in seconds, `None` for none. Raises ProviderFailure.
        """

    def close_idle(self) -> None:
        """Close idle connections, to free their file descriptors."""

    async def aclose(self) -> None:
        """Close all connections."""

"""A request and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Self

from swink_core.vocabulary.http import HTTPResponse


class Body:
    """The body of a response that is asked for by the first read.

    No coroutine of its own stands between a reader and the response's: that is felt at each read.
    """

    def __init__(self, respond: Callable[[], Awaitable[HTTPResponse]]) -> None:
        self._respond = respond
        self._response: HTTPResponse | None = None

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Awaitable[bytes]:
        return self._first() if self._response is None else self._response.__anext__()

    async def _first(self) -> bytes:
        self._response = await self._respond()
        return await self._response.__anext__()

    async def aclose(self) -> None:
        """Close the response, if there is one."""
        if self._response is not None:
            self._response.close()

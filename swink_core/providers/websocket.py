"""A WebSocket as a response."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from attrs import define

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.framing.frame import DEFAULT_FRAME_LIMIT
from swink_core.providers.network import failure_of
from swink_core.vocabulary.http import SWITCHED, HTTPRequest, HTTPResponse
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

if TYPE_CHECKING:
    import aiohttp


async def open_websocket(
    session: aiohttp.ClientSession,
    request: HTTPRequest,
    connect_timeout: float | None,
    proxy: str | None,
) -> HTTPResponse:
    """Open a WebSocket and send its first message; see `HTTPClient.send`."""
    import aiohttp

    try:
        async with asyncio.timeout(connect_timeout):
            headers, most = request.headers, DEFAULT_FRAME_LIMIT
            socket = await session.ws_connect(
                request.url, headers=headers, proxy=proxy, max_msg_size=most, decode_text=False
            )
            try:
                await socket.send_str(request.body.decode())
            except BaseException:
                _WebSocket(socket).close()
                raise
    except aiohttp.WSServerHandshakeError as error:
        return _Refusal(error.status, error.headers or {})
    return _WebSocket(socket)


@define
class _Refusal:
    """A refused upgrade, whose body aiohttp throws away."""

    status: int
    headers: Mapping[str, str]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    def close(self) -> None:
        """Do nothing: the connection is closed already."""


_ORDINARY = (None, 0, 1000, 1005)
"""Codes of a close that is an end and no more (RFC 6455 section 7.4.1)."""

_SAYING = (1003, 1007, 1008, 1009, 1013)
"""Codes that say what is wrong with the request or the service, which the provider knows to read;
others are the connection's."""

MOST_AT_ONCE = 256
"""Empty messages between two chances for the event loop to do something else."""


class _WebSocket:
    status = SWITCHED

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[Any]) -> None:
        from swink_core.providers.aiohttp_insides import answer_to_upgrade

        self._socket = socket
        self._response = answer_to_upgrade(socket)
        self.headers: Mapping[str, str] = self._response.headers

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        import aiohttp

        for number in count(1):
            if number % MOST_AT_ONCE == 0:
                await asyncio.sleep(0)
            message = await self._socket.receive()
            if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                break
            if message.data:
                data: bytes = message.data
                return data
        if message.type is aiohttp.WSMsgType.ERROR:
            raise ProviderFailure(failure_of(message.data, "streaming"))
        if message.type is aiohttp.WSMsgType.CLOSE and message.data not in _ORDINARY:
            why = message.extra or f"the WebSocket was closed with code {message.data}"
            kind = None if message.data in _SAYING or message.data >= 3000 else Kind.NETWORK
            code = f"close_{message.data}"
            raise ProviderFailure(Failure("streaming", kind=kind, code=code, message=why))
        raise StopAsyncIteration

    def close(self) -> None:
        self._response.close()

"""Read an answer from a WebSocket (RFC 6455) as if it were an HTTP response.

The first message that the client sends is the body of the request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from attrs import define, evolve

from swink_core import Failure, ProviderFailure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import (
    DEFAULT_FRAME_LIMIT,
    AiohttpClient,
    HTTPRequest,
    HTTPResponse,
    LoopClock,
    failure_of,
)

if TYPE_CHECKING:
    import aiohttp

__all__ = ["SWITCHED", "open_websocket"]

SWITCHED = 101
"""The HTTP status with which a server accepts a WebSocket (RFC 9110 section 15.2.2)."""


async def open_websocket(
    client: AiohttpClient, request: HTTPRequest, connect_timeout: float | None
) -> HTTPResponse:
    """Open a WebSocket with a client's session and send the first message.

    Redirects are not followed. `connect_timeout` is in seconds; `None` means no limit. Raises
    ProviderFailure if the WebSocket cannot be opened.
    """
    import aiohttp

    shared, request, proxy = await client.prepare(evolve(request, url=f"http{request.url[2:]}"))
    answers: list[aiohttp.ClientResponse] = []
    try:
        async with (
            LoopClock.limit(connect_timeout),
            aiohttp.ClientSession(
                connector=shared.connector, connector_owner=False, trace_configs=[_trace(answers)],
                cookie_jar=aiohttp.DummyCookieJar(),
            ) as session,
        ):  # fmt: skip
            headers, most = request.headers, DEFAULT_FRAME_LIMIT
            socket = await session.ws_connect(
                request.url, headers=headers, proxy=proxy, max_msg_size=most, decode_text=False
            )
            opened = _WebSocket(socket, answers[-1])
            try:
                await socket.send_str(request.body.decode())
            except BaseException:
                opened.close()
                raise
    except aiohttp.WSServerHandshakeError as error:
        return _Refusal(error.status, error.headers or {})
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ProviderFailure(failure_of(error, "connect", proxy)) from error
    return opened


def _trace(answers: list[aiohttp.ClientResponse]) -> aiohttp.TraceConfig:
    """Return an aiohttp trace that appends the server's response to `answers`.

    The trace raises an error at a redirect, so that aiohttp does not follow it.
    """
    import aiohttp

    async def keep(_: aiohttp.ClientSession, __: object, params: Any) -> None:
        answers.append(params.response)

    async def refuse(_: aiohttp.ClientSession, __: object, params: Any) -> None:
        answer = params.response
        raise aiohttp.WSServerHandshakeError(
            answer.request_info, (), status=answer.status, headers=answer.headers
        )

    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(keep)
    trace.on_request_redirect.append(refuse)
    return trace


@define
class _Refusal:
    """The response of a server that refused the WebSocket. aiohttp has discarded the body."""

    status: int
    headers: Mapping[str, str]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    def close(self) -> None:
        """Do nothing: the connection is closed already."""


_ORDINARY = (None, 0, 1000, 1005)
"""Close codes that are not errors (RFC 6455 section 7.4.1)."""

_SAYING = (1003, 1007, 1008, 1009, 1013)
"""Close codes that report an error of the request or the service; the provider classifies it.

Close codes that are neither here nor in `_ORDINARY` mean that the connection failed.
"""

MOST_AT_ONCE = 256
"""After this many empty messages in a row, other tasks get a turn in the event loop."""


class _WebSocket:
    status = SWITCHED

    def __init__(
        self, socket: aiohttp.ClientWebSocketResponse[Any], response: aiohttp.ClientResponse
    ) -> None:
        self._socket = socket
        self._response = response
        self.headers: Mapping[str, str] = response.headers

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
            failure = failure_of(message.data, "streaming")
            if isinstance(message.data, aiohttp.WebSocketError):
                failure.kind, failure.code = Kind.PROTOCOL, "websocket"
            raise ProviderFailure(failure)
        if message.type is aiohttp.WSMsgType.CLOSE and message.data not in _ORDINARY:
            why = message.extra or f"the WebSocket was closed with code {message.data}"
            kind = None if message.data in _SAYING or message.data >= 3000 else Kind.NETWORK
            code = f"close_{message.data}"
            raise ProviderFailure(Failure("streaming", kind=kind, code=code, message=why))
        raise StopAsyncIteration

    def close(self) -> None:
        self._response.close()

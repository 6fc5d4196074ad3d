"""The network: one request, and its body as it is read. aiohttp is imported with the first one."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Protocol, Self
from urllib.parse import urlsplit

from attrs import define, field

from swink_core.errors import Failure, Phase, ProviderFailure, public_url
from swink_core.framing import DEFAULT_FRAME_LIMIT
from swink_core.outcome import StreamErrorKind as Kind

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AiohttpClient", "Body", "HTTPClient", "HTTPRequest", "HTTPResponse"]


@define
class HTTPRequest:
    """What to send. `headers` may carry credentials and never show in a repr."""

    url: str
    body: bytes = field(default=b"", repr=False)
    headers: dict[str, str] = field(factory=dict, repr=False)
    method: str = "POST"


class HTTPResponse(Protocol):
    """A response, and the pieces of its body as they come, each at least a byte.

    Iterating raises ProviderFailure when the connection fails.
    """

    status: int
    headers: Mapping[str, str]
    """Looked up without regard to case."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Return the response itself."""

    async def __anext__(self) -> bytes:
        """Return what the network has, at least a byte."""

    def close(self) -> None:
        """Close the connection at once, unless the body was read to its end."""


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


class HTTPClient(Protocol):
    """Sends requests. Redirects are not followed."""

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Send a request and return when the response's headers have come.

        At an address that begins with `ws` it opens a WebSocket (RFC 6455): the body is the
        first message, the status is 101 unless the server refused, and a read is a message.
        `connect_timeout` is in seconds, `None` for none. Raises ProviderFailure.
        """

    def close_idle(self) -> None:
        """Close connections that nobody uses, to free their descriptors."""

    async def aclose(self) -> None:
        """Close all connections."""


class AiohttpClient:
    """`HTTPClient` on a pooled aiohttp session, made with the first request in its event loop.

    No cap on connections: a pool of 100 is a silent queue for the hundred and first stream.
    """

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._proxies: dict[str, str] | None = None

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Send a request; see `HTTPClient.send`."""
        import aiohttp

        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                cookie_jar=aiohttp.DummyCookieJar(),
                trace_configs=[_reuse_trace()],
            )
        if request.url.startswith("ws"):
            proxy = self._proxy("http" + request.url[2:])
            return await open_websocket(self._session, request, connect_timeout, proxy)
        reused: list[bool] = []
        try:
            response = await self._session.request(
                request.method,
                request.url,
                data=request.body or None,
                headers=request.headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout),
                trace_request_ctx=reused,
                proxy=self._proxy(request.url),
            )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = failure_of(error, "connect")
            if reused and failure.code in ("disconnected", "connection"):
                failure.code = STALE
            raise ProviderFailure(failure) from error
        return _Response(response)

    def _proxy(self, url: str) -> str | None:
        """Find the environment's proxy. aiohttp's own way asks two threads at every request.

        This machine is never asked through one: a proxy elsewhere has another, and would get
        what was said to a server that nobody else should hear.
        """
        from urllib.request import getproxies, proxy_bypass

        if self._proxies is None:
            self._proxies = getproxies()
        if not self._proxies:
            return None
        parts = urlsplit(url)
        host = parts.hostname
        if host is None or _is_this_machine(host) or proxy_bypass(host):
            return None
        return self._proxies.get(parts.scheme) or self._proxies.get("all")

    def close_idle(self) -> None:
        """Close connections that nobody uses."""
        if self._session is not None and self._session.connector is not None:
            connector = self._session.connector
            for pool in connector._conns.values():  # no public way before aiohttp 4
                while pool:
                    pool.popleft()[0].close()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _is_this_machine(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):  # RFC 6761 section 6.3
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


SWITCHED = 101
"""The status of a response that is a WebSocket (RFC 9110 section 15.2.2)."""

STALE = "stale"
"""The code of a failure of a pooled connection that the server had given up meanwhile."""


def _reuse_trace() -> aiohttp.TraceConfig:
    import aiohttp

    async def note(_: aiohttp.ClientSession, context: Any, __: object) -> None:
        if context.trace_request_ctx is not None:  # a WebSocket's request has none
            context.trace_request_ctx.append(True)

    async def refuse(_: aiohttp.ClientSession, __: object, params: Any) -> None:
        answer = params.response  # to a WebSocket's request, which aiohttp would send again
        raise aiohttp.WSServerHandshakeError(
            answer.request_info, (), status=answer.status, headers=answer.headers
        )

    trace = aiohttp.TraceConfig()
    trace.on_connection_reuseconn.append(note)
    trace.on_request_redirect.append(refuse)
    return trace


class _Response:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            data = await self._content.readany()
        except (_client_error(), OSError, ValueError) as error:
            # aiohttp keeps to itself what came before the failure and was not read yet
            if rest := self._content._read_nowait(-1):
                return rest
            raise ProviderFailure(failure_of(error, "streaming")) from error
        if not data:
            raise StopAsyncIteration
        return data

    def close(self) -> None:
        self._response.close()


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
            socket = await session.ws_connect(
                request.url,
                headers=request.headers,
                proxy=proxy,
                max_msg_size=DEFAULT_FRAME_LIMIT,
                decode_text=False,
            )
            try:
                await socket.send_str(request.body.decode())
            except BaseException:
                _WebSocket(socket).close()
                raise
    except aiohttp.WSServerHandshakeError as error:
        return _Refusal(error.status, error.headers or {})
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise ProviderFailure(failure_of(error, "connect")) from error
    return _WebSocket(socket)


class _Refusal:
    """A refused upgrade, whose body aiohttp throws away."""

    def __init__(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = headers

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration

    def close(self) -> None:
        """Do nothing: the connection is closed already."""


class _WebSocket:
    status = SWITCHED

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[Any]) -> None:
        self._socket = socket
        self._response = socket._response  # no public way to its headers, nor to close at once
        self.headers: Mapping[str, str] = self._response.headers

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        import aiohttp

        while True:
            message = await self._socket.receive()
            if message.type not in (aiohttp.WSMsgType.TEXT, aiohttp.WSMsgType.BINARY):
                break
            if message.data:
                data: bytes = message.data
                return data
        if message.type is aiohttp.WSMsgType.ERROR:
            raise ProviderFailure(failure_of(message.data, "streaming"))
        raise StopAsyncIteration

    def close(self) -> None:
        self._response.close()


def _client_error() -> type[Exception]:
    import aiohttp

    return aiohttp.ClientError


def failure_of(error: BaseException, phase: Phase) -> Failure:
    """Turn what aiohttp or the system raised into facts with a code of the core's."""
    import aiohttp

    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    number = getattr(cause, "errno", None)
    kind, code, message = Kind.NETWORK, "connection", str(error) or type(error).__name__
    if isinstance(error, aiohttp.InvalidURL):
        kind, code, message = (
            Kind.INVALID_REQUEST,
            "url",
            f"not an address: {public_url(str(error.url))}",
        )
    elif number in (errno.EMFILE, errno.ENFILE):
        kind, code, message = Kind.RESOURCE, "no_descriptors", "too many open files"
    elif number in (errno.ENOMEM, errno.ENOBUFS):
        kind, code = Kind.RESOURCE, "no_memory"
    elif isinstance(error, TimeoutError):
        kind, code, message = Kind.TIMEOUT, "connect", "no connection within the limit"
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        code = "dns"
    elif isinstance(error, aiohttp.ClientSSLError) or isinstance(cause, ssl.SSLError):
        code = "tls"
    elif isinstance(cause, ConnectionRefusedError):
        code = "connection_refused"
    elif isinstance(error, aiohttp.ServerDisconnectedError):
        code, message = "disconnected", "the server closed the connection without an answer"
    elif isinstance(error.__cause__, aiohttp.http_exceptions.ContentEncodingError):
        kind, code, message = Kind.PROTOCOL, "encoding", "the response cannot be decompressed"
    elif isinstance(error, aiohttp.ClientPayloadError):
        code, message = "cut", "the response ended before its end"
    elif isinstance(error, aiohttp.WebSocketError):
        kind, code = Kind.PROTOCOL, "websocket"
    elif isinstance(error, aiohttp.ClientResponseError):
        kind, code, message = Kind.PROTOCOL, "http", error.message
    elif isinstance(error, ValueError):
        kind, code = Kind.PROTOCOL, "encoding"
    return Failure(phase, exception=error, kind=kind, code=code, message=message)

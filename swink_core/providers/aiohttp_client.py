"""The network: one request, and its body as it is read. aiohttp is imported with the first one."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from swink_core.failures.exceptions import ProviderFailure
from swink_core.providers.network import _client_error, failure_of
from swink_core.providers.websocket import open_websocket
from swink_core.vocabulary.http import HTTPRequest, HTTPResponse

if TYPE_CHECKING:
    import aiohttp


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

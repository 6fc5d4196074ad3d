"""`HttptoolsClient`: sends ordinary requests itself, and all others through aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import lru_cache

import httptools
from attrs import frozen
from yarl import URL

from swink_core import ProviderFailure
from swink_core.providers import AiohttpClient, HTTPRequest, HTTPResponse
from swink_transport_httptools.connection import Connection
from swink_transport_httptools.inflate import CODINGS
from swink_transport_httptools.pool import Origin, Pool, opened
from swink_transport_httptools.response import Response

METHODS = frozenset({"DELETE", "GET", "OPTIONS", "PATCH", "POST", "PUT"})
"""Methods of requests that are sent without aiohttp.

HEAD is not included, because the parser expects a body in the response to a HEAD request.
"""

IDEMPOTENT = METHODS - {"PATCH", "POST"}
"""Methods whose requests are repeated if a pooled connection fails (RFC 9110 section 9.2.2)."""

WITHOUT_LENGTH = frozenset({"GET", "OPTIONS"})
"""Methods whose requests usually have no body.

Such a request without a body is sent without `Content-Length` (RFC 9110 section 8.6).
"""

FOR_AIOHTTP = frozenset({"accept-encoding", "connection", "expect", "te", "upgrade"})
"""Headers whose features only aiohttp supports. aiohttp sends the requests with such headers."""

STALE = "stale"
"""The code of a failure on a pooled connection that the server had already closed."""

MOST_URLS = 256
"""The maximum number of parsed URLs that a client caches."""

USER_AGENT = f"swink-transport-httptools (httptools {httptools.__version__})"


@frozen(repr=False)  # the target may contain a key
class _Place:
    """The destination of requests: the origin, the request target and the `Host` header."""

    origin: Origin
    target: str
    host: str


class HttptoolsClient(AiohttpClient):
    """An HTTP client with less overhead per request than aiohttp.

    Pass it to a client: `Client(http=HttptoolsClient())`. It sends HTTP/1.1 requests, with or
    without TLS, and reuses connections. aiohttp sends the rest: WebSockets, requests through a
    proxy, and those with an unusual method or with headers such as `Expect`. Timeouts, failures and
    `SSL_CERT_FILE` work in the same way for all requests.
    """

    def __init__(self) -> None:
        super().__init__()
        self._pools: dict[asyncio.AbstractEventLoop, _OpenPool] = {}
        self._places: dict[str, _Place | None] = {}

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Send a request; see `HTTPClient.send`. Raises UsageError once the client is closed."""
        request, proxy = self.check(request)
        place = self._place(request.url)
        added = _added(tuple(request.headers), bool(request.body))
        if place is None or added is None or proxy or request.method not in METHODS:
            return await super().send(request, connect_timeout)
        pool = await self._pool()
        head = _head(request, place, added)
        connection = pool.take(place.origin)
        if connection is not None:
            try:
                return await _answer(connection, head, request.body, pool, place.origin)
            except ProviderFailure as error:
                failure = error.failure
                if failure.code not in ("connection", "disconnected"):
                    raise
                if request.method not in IDEMPOTENT:
                    failure.code = STALE
                    raise
        connection = await pool.connect(place.origin, connect_timeout)
        return await _answer(connection, head, request.body, pool, place.origin)

    def _place(self, url: str) -> _Place | None:
        """Parse a URL; return `None` if the URL is invalid or aiohttp must send the request.

        For an invalid URL, aiohttp raises the error.
        """
        try:
            return self._places[url]
        except KeyError:
            pass
        if len(self._places) >= MOST_URLS:
            self._places.clear()
        place = self._places[url] = _place_of(url)
        return place

    async def _pool(self) -> Pool:
        loop = asyncio.get_running_loop()
        known = self._pools.get(loop)
        if known is None or known[1].closed:
            for other in [other for other in self._pools if other.is_closed()]:
                self._pools.pop(other, None)
            life = opened()
            known = (life, await anext(life))
            self._pools[loop] = known
        return known[1]

    def close_idle(self) -> None:
        """Close idle connections of the running event loop."""
        known = self._pools.get(asyncio.get_running_loop())
        if known is not None:
            known[1].close_idle()
        super().close_idle()

    async def aclose(self) -> None:
        """Close all connections, including those of other running event loops."""
        await super().aclose()
        here = asyncio.get_running_loop()
        pools = self._pools
        self._pools = {}
        for loop, (life, _) in pools.items():
            if loop is here:
                await life.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_close(life), loop)


_OpenPool = tuple[AsyncGenerator[Pool, None], Pool]


async def _close(life: AsyncGenerator[Pool, None]) -> None:
    await life.aclose()


async def _answer(
    connection: Connection, head: bytes, body: bytes, pool: Pool, origin: Origin
) -> Response:
    try:
        await connection.request(head, body)
    except BaseException:
        connection.abort()
        raise
    return Response(connection, pool, origin)


def _place_of(url: str) -> _Place | None:
    try:
        parsed = URL(url)
        host = parsed.raw_host
        port = parsed.port
        shown = parsed.host_port_subcomponent
    except (TypeError, ValueError):
        return None
    if parsed.scheme not in ("http", "https") or not host or not port or not shown:
        return None
    return _Place((host, port, parsed.scheme == "https"), parsed.raw_path_qs, shown)


@lru_cache(maxsize=256)
def _added(names: tuple[str, ...], has_body: bool) -> tuple[bool, str] | None:
    """Return whether the header `Host` must be added to a request, and the other headers to add.

    `names` are the names of the request's headers. Their values may be secrets, so they are not
    arguments of this cached function. `None` means that aiohttp must send the request.
    """
    given = {name.lower() for name in names}
    if given & FOR_AIOHTTP:
        return None
    added = {"Accept": "*/*", "Accept-Encoding": ", ".join(CODINGS), "User-Agent": USER_AGENT}
    if has_body:
        added["Content-Type"] = "application/octet-stream"
    lines = "".join(f"{name}: {added[name]}\r\n" for name in added if name.lower() not in given)
    return "host" not in given, lines


def _head(request: HTTPRequest, place: _Place, added: tuple[bool, str]) -> bytes:
    """Return the head of a request."""
    needs_host, others = added
    lines = "".join([f"{name}: {value}\r\n" for name, value in request.headers.items()])
    host = f"Host: {place.host}\r\n" if needs_host else ""
    length = ""
    if request.body or request.method not in WITHOUT_LENGTH:
        length = f"Content-Length: {len(request.body)}\r\n"
    first = f"{request.method} {place.target} HTTP/1.1\r\n"
    return f"{first}{host}{lines}{others}{length}\r\n".encode()

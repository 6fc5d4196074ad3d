"""Send HTTP requests and read their bodies. The first request imports aiohttp."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeAlias
from urllib.parse import urlsplit

from attrs import evolve

from swink_core.failures.exceptions import ProviderFailure, UsageError
from swink_core.failures.failure import Failure
from swink_core.failures.kinds import STALE
from swink_core.failures.redaction import basic_credentials
from swink_core.providers.network import failure_of, is_own_address
from swink_core.vocabulary.http import HTTPRequest, HTTPResponse
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

if TYPE_CHECKING:
    import aiohttp


class AiohttpClient:
    """An `HTTPClient` that uses aiohttp, with one session for each event loop that sends requests.

    A session and its pool of connections are created by the first request in an event loop. They
    are closed with the client or when the loop shuts down, whichever comes first. The number of
    connections is not limited: with aiohttp's default limit of 100, the 101st stream would wait
    without any message.
    """

    def __init__(self) -> None:
        self._sessions: dict[asyncio.AbstractEventLoop, _OpenSession] = {}
        self._closed = False
        self._proxies: dict[str, str] | None = None

    async def send(self, request: HTTPRequest, connect_timeout: float | None) -> HTTPResponse:
        """Send a request; see `HTTPClient.send`. Raises UsageError once the client is closed."""
        import aiohttp

        from swink_core.providers.aiohttp_insides import limits, reused

        session, request, proxy = await self.prepare(request)
        what: dict[str, Any] = {"data": request.body or None, "headers": request.headers}
        if not request.body:
            what["skip_auto_headers"] = ("Content-Type",)  # the request has no content
        if len(request.body) > MOST_AT_ONCE:
            what["data"] = _pieces(request.body)
            what["headers"] = {**request.headers, "Content-Length": str(len(request.body))}
        what |= {"timeout": limits(connect_timeout), "proxy": proxy, "allow_redirects": False}
        try:
            response = await session.request(request.method, request.url, **what)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = failure_of(error, "connect", proxy)
            if reused.get(False) and failure.code in ("disconnected", "connection"):
                failure.code = STALE
            raise ProviderFailure(failure) from error
        return _Response(response)

    async def prepare(
        self, request: HTTPRequest
    ) -> tuple[aiohttp.ClientSession, HTTPRequest, str | None]:
        """Return the running loop's session, the request with checked headers, and its proxy.

        This method is for protocols that begin with an HTTP request, such as WebSocket. Raises
        ProviderFailure for an invalid header, and UsageError once the client is closed.
        """
        request, proxy = self.check(request)
        return await self._session(), request, proxy

    def check(self, request: HTTPRequest) -> tuple[HTTPRequest, str | None]:
        """Return the request with checked headers, and its proxy (`None`: no proxy).

        User information in the URL becomes a header. An HTTP client that sends only some requests
        with this class calls this method for all others. Raises ProviderFailure for an invalid
        header, and UsageError once the client is closed.
        """
        if self._closed:
            hint = "Make another Client, or close it later."
            raise UsageError("the client is closed", resolution=hint)
        request = _sendable(request)
        return request, self._proxy(request.url)

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        known = self._sessions.get(loop)
        if known is None or known[1].closed:
            for other in [other for other in self._sessions if other.is_closed()]:
                self._sessions.pop(other, None)
            life = _open_session()
            known = (life, await anext(life))
            self._sessions[loop] = known
        return known[1]

    def _proxy(self, url: str) -> str | None:
        """Return the proxy that the environment sets for a URL.

        aiohttp's own function is not used, because it starts two threads for every request.
        Requests to loopback addresses never use a proxy: a remote proxy would send such a request
        to its own machine, which would receive private data.
        """
        if self._proxies is None:
            from urllib.request import getproxies

            self._proxies = getproxies()
        if not self._proxies:
            return None
        from urllib.request import proxy_bypass

        parts = urlsplit(url)
        host = parts.hostname
        if host is None or is_own_address(url) or proxy_bypass(host):
            return None
        return self._proxies.get(parts.scheme) or self._proxies.get("all")

    def close_idle(self) -> None:
        """Close idle connections of the running event loop."""
        if (known := self._sessions.get(asyncio.get_running_loop())) is not None:
            connector: Any = known[1].connector
            connector.close_idle()

    async def aclose(self) -> None:
        """Close all connections, including those of other running event loops."""
        self._closed = True
        here = asyncio.get_running_loop()
        sessions = self._sessions
        self._sessions = {}
        for loop, (life, _) in sessions.items():
            if loop is here:
                await life.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_close(life), loop)


_OpenSession: TypeAlias = "tuple[AsyncGenerator[Any, None], aiohttp.ClientSession]"


async def _close(life: AsyncGenerator[Any, None]) -> None:
    await life.aclose()


async def _open_session() -> AsyncGenerator[aiohttp.ClientSession, None]:
    """Yield a session, and close the session when this generator is closed.

    A generator is used because an event loop that shuts down closes its open generators, at a time
    when connections can still be closed properly.
    """
    import aiohttp

    from swink_core.providers.aiohttp_insides import Connector

    jar = aiohttp.DummyCookieJar()
    session = aiohttp.ClientSession(connector=Connector(limit=0), cookie_jar=jar)
    try:
        yield session
    finally:
        await session.close()


_UNSENDABLE = re.compile("[\r\n\0\ud800-\udfff]")

_is_name = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch  # RFC 9110 section 5.6.2


def _fault(name: str, value: str) -> str:
    """Describe why a header is invalid; return an empty string for a valid header."""
    if found := _UNSENDABLE.search(name + value):
        is_break = found[0] in "\r\n"
        return "contains a line break" if is_break else "contains an invalid character"
    if name.lower() in ("content-length", "transfer-encoding"):
        return "is set by the HTTP client"
    return "" if _is_name(name) else "has an invalid name"


@lru_cache(maxsize=256)
def _is_sendable_name(name: str) -> bool:
    return not _fault(name, "")


def _sendable(request: HTTPRequest) -> HTTPRequest:
    """Check the headers, and convert user information in the address to an `Authorization` header.

    If the provider sets that header itself, the user information is dropped.
    """
    values = "".join(request.headers.values())
    is_plain = values.isascii() and values.isprintable()
    all_plain = is_plain and all(map(_is_sendable_name, request.headers))
    for name, value in () if all_plain else request.headers.items():
        if fault := _fault(name, value):
            message = f"the header {name!r} {fault}"
            failure = Failure("request", kind=Kind.INVALID_REQUEST, code="header", message=message)
            failure.resolution = "Check the headers and the API key."
            raise ProviderFailure(failure)
    url, credentials = basic_credentials(request.url)
    if not credentials:
        return request
    headers = dict(request.headers)
    if "authorization" not in map(str.lower, headers):
        headers["Authorization"] = credentials
    return evolve(request, url=url, headers=headers)


MOST_AT_ONCE = 512 * 1024
"""After this many bytes of a body, the event loop gets a chance to run other tasks.

Without this limit, a task could keep the event loop busy, because reading and writing do not wait
if data has already arrived or the connection accepts data at once.
"""


async def _pieces(body: bytes) -> AsyncIterator[memoryview]:
    """Yield a body in pieces, because copying a large body at once would block the event loop."""
    rest = memoryview(body)
    for start in range(0, len(body), MOST_AT_ONCE):
        await asyncio.sleep(0)
        yield rest[start : start + MOST_AT_ONCE]


def _client_error() -> type[Exception]:
    import aiohttp

    return aiohttp.ClientError


class _Response:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._content = response.content
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._at_once = 0  # bytes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._at_once > MOST_AT_ONCE:
            self._at_once = 0
            await asyncio.sleep(0)
        try:
            data = await self._content.readany()
        except (_client_error(), OSError, ValueError) as error:
            # data that aiohttp received before the failure and has not delivered yet
            from swink_core.providers.aiohttp_insides import rest_of

            if rest := rest_of(self._content):
                return rest
            raise ProviderFailure(failure_of(error, "streaming")) from error
        if not data:
            raise StopAsyncIteration
        self._at_once += len(data)
        return data

    @property
    def at_end(self) -> bool:
        return self._content.at_eof()

    def close(self) -> None:
        self._response.close()

"""Download media from URLs for APIs that accept only data, if the caller allows it.

A URL in a conversation may come from an untrusted person, so swink connects only to public hosts. A
host name is resolved once, and swink connects only to a resolved address that it has checked. The
host of each redirect is checked in the same way. Proxies set in the environment are not used,
because a proxy resolves host names itself. No credentials are sent.
"""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import mimetypes
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from swink_core.failures.exceptions import ProviderFailure
from swink_core.failures.failure import Failure
from swink_core.failures.redaction import public_url
from swink_core.plugins.time_limits import time_limit
from swink_core.providers.media import MOST_CALL_BYTES, MOST_FILE_BYTES, with_sources
from swink_core.providers.network import failure_of
from swink_core.vocabulary.messages import Base64Source, Context, MediaBlock, UrlSource
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

if TYPE_CHECKING:
    import aiohttp

    from swink_core.plugins.attempt import Attempt

SECONDS = 60.0
"""The maximum time for all downloads of a call together, in seconds."""

MOST_REDIRECTS = 5

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_UNKNOWN = ("", "application/octet-stream", "binary/octet-stream")
_REDIRECTS = (301, 302, 303, 307, 308)


def is_public(address: str) -> bool:
    """Return True if an IP address belongs to the public internet.

    If an IPv6 address contains an IPv4 address, the IPv4 address is checked instead.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour
        if inner is None and found in _NAT64:
            inner = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        found = inner or found
    if isinstance(found, ipaddress.IPv6Address) and found.is_site_local:
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved)


async def downloaded(context: Context, attempt: Attempt) -> Context:
    """Download those URLs of a conversation that the attempt's API does not fetch itself.

    Return the conversation with the downloaded content in place of these URLs.

    Raises ProviderFailure if a URL is refused or a download fails.
    """
    takes = getattr(attempt.target.binding.provider, "takes_address", None)
    if takes is None:
        return context
    model = attempt.model
    options = attempt.options
    return await with_downloads(context, lambda block: not takes(model, block, options))


async def with_downloads(
    context: Context,
    is_wanted: Callable[[Any], bool],
    *,
    each: int = MOST_FILE_BYTES,
    in_all: int = MOST_CALL_BYTES,
    seconds: float = SECONDS,
    allowed: Callable[[str], bool] = is_public,
) -> Context:
    """Return a conversation with the downloaded content in place of URLs.

    `is_wanted` returns True for the blocks to download. `each` and `in_all` are limits in bytes,
    for one file and for all together; `seconds` is the time limit for all downloads together.
    `allowed` returns True for IP addresses to which swink may connect. Raises ProviderFailure if a
    URL is refused, or a download fails or exceeds a limit.
    """
    wanted = [
        block.source
        for message in context.messages
        if not isinstance(message.content, str)
        for block in message.content
        if isinstance(block, MediaBlock)
        and isinstance(block.source, UrlSource)
        and is_wanted(block)
    ]
    if not wanted:
        return context
    loaded: dict[int, Base64Source] = {}
    known: dict[tuple[str, str | None], Base64Source] = {}
    try:
        async with time_limit(seconds), AsyncExitStack() as stack:
            session = await stack.enter_async_context(_session(allowed))
            for source in wanted:
                key = source.url, source.media_type
                if key not in known:
                    known[key] = await _download(session, source, min(each, in_all), allowed)
                    in_all -= len(known[key].data) * 3 // 4
                loaded[id(source)] = known[key]
    except TimeoutError:
        raise _refused(source.url, f"the download took longer than {seconds:g} s") from None
    return with_sources(context, loaded)


def _session(allowed: Callable[[str], bool]) -> aiohttp.ClientSession:
    import aiohttp
    from aiohttp.resolver import ThreadedResolver

    class Resolver(ThreadedResolver):
        """Resolves names, and returns only addresses to which swink may connect."""

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
        ) -> Any:
            found = await super().resolve(host, port, family)
            for one in found:
                if not allowed(one["host"]):
                    raise _NotPublic(host)
            return found

    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(resolver=Resolver(), use_dns_cache=False),
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None),
    )


class _NotPublic(Exception):
    """Raised for a host name that does not resolve to the public internet."""


async def _download(
    session: aiohttp.ClientSession,
    source: UrlSource,
    most: int,
    allowed: Callable[[str], bool],
) -> Base64Source:
    import aiohttp

    url = source.url
    for _ in range(MOST_REDIRECTS + 1):
        _check(url, allowed)
        try:
            async with session.get(
                url, allow_redirects=False, headers={"Accept-Encoding": "identity"}
            ) as response:
                place = response.headers.get("Location")
                if response.status in _REDIRECTS and place is not None:
                    url = urljoin(url, place)
                    continue
                if response.status != 200:
                    raise _refused(source.url, f"the server answered HTTP {response.status}")
                if response.headers.get("Content-Encoding", "identity") != "identity":
                    raise _refused(source.url, "the server sent it compressed")
                data = await _read(source.url, response, most)
                kind = source.media_type or _kind(response.headers.get("Content-Type", ""), url)
        except _NotPublic as error:
            raise _private(source.url, str(error)) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _refused(source.url, f"{failure_of(error, 'request').message}") from error
        if kind is None:
            raise _refused(source.url, "the server did not state the media type")
        return Base64Source(kind, await asyncio.to_thread(_encoded, data))
    raise _refused(source.url, f"more than {MOST_REDIRECTS} redirects")


async def _read(url: str, response: aiohttp.ClientResponse, most: int) -> bytes:
    data = bytearray()
    async for piece in response.content.iter_any():
        data += piece
        if len(data) > most:
            raise _refused(url, f"more than {most:,} bytes (the limit)")
    if not data:
        raise _refused(url, "the answer is empty")
    return bytes(data)


def _check(url: str, allowed: Callable[[str], bool]) -> None:
    """Raise ProviderFailure for an invalid URL, or for an IP address that is not public.

    Host names are checked later, when they are resolved. The URL is parsed in the same way as by
    aiohttp, which for example replaces full-width digits with ASCII digits.
    """
    from yarl import URL

    try:
        parts = URL(url)
    except ValueError:
        raise _refused(url, "it is not a valid address") from None
    host = parts.raw_host
    if parts.scheme not in ("http", "https") or not host:
        raise _refused(url, "only http:// and https:// addresses are downloaded")
    if parts.user or parts.password:
        raise _refused(url, "an address with a user name or password is not downloaded")
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return
    if not allowed(host):
        raise _private(url, host)


def _kind(header: str, url: str) -> str | None:
    kind = header.partition(";")[0].strip().lower()
    if kind in _UNKNOWN or "/" not in kind:
        return mimetypes.guess_type(urlsplit(url).path)[0]
    return kind


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _private(url: str, host: str) -> ProviderFailure:
    return _refused(url, f"{host} is not on the public internet")


def _refused(url: str, what: str) -> ProviderFailure:
    failure = Failure("request", kind=Kind.INVALID_REQUEST, code="download")
    failure.message = f"{public_url(url)} was not downloaded: {what}"
    failure.resolution = "Pass the media's data, or an address that can be downloaded."
    return ProviderFailure(failure)

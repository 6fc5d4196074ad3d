"""Recognize local addresses, and convert exceptions of aiohttp and the system to failures."""

from __future__ import annotations

import errno
import os
import ssl
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from swink_core.failures.failure import Failure, Phase
from swink_core.failures.redaction import address_fault, credentials_in, public_url, redact
from swink_core.vocabulary.outcome import StreamErrorKind as Kind


def is_own_address(url: str, private: bool = False) -> bool:
    """Return True if a URL refers to this machine.

    If `private` is true, also return True for an IP address in a private network.
    """
    host = urlsplit(url).hostname or ""
    with suppress(ValueError):
        address = ip_address(host)
        return address.is_loopback or (private and address.is_private)
    return f".{host}".endswith(".localhost")  # RFC 6761 section 6.3


def failure_of(error: BaseException, phase: Phase, proxy: str | None = None) -> Failure:
    """Convert an exception of aiohttp or the system to a failure with a code of the core.

    `proxy` is the proxy that the environment had set for the request, if any.
    """
    import aiohttp

    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    number = getattr(cause, "errno", None)
    kind = Kind.NETWORK
    code = "connection"
    message = str(error) or type(error).__name__
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        url = str(error.args[0])
        kind = Kind.INVALID_REQUEST
        code = "proxy" if url == proxy else "url"
        message = f"invalid URL: {public_url(url)} ({address_fault(url)})"
    elif number in (errno.EMFILE, errno.ENFILE):
        kind = Kind.RESOURCE
        code = "no_descriptors"
        message = "too many open files"
    elif number in (errno.ENOMEM, errno.ENOBUFS):
        kind = Kind.RESOURCE
        code = "no_memory"
    elif isinstance(error, TimeoutError):
        kind = Kind.TIMEOUT
        code = "connect"
        message = "no connection within the connect timeout"
    elif isinstance(error, aiohttp.ClientConnectorDNSError):
        code = "dns"
    elif isinstance(error, aiohttp.ClientSSLError) or isinstance(cause, ssl.SSLError):
        code = "tls"
        if not os.path.exists(os.environ.get("SSL_CERT_FILE") or os.sep):
            message += "; the file of SSL_CERT_FILE does not exist"
    elif isinstance(cause, ConnectionRefusedError):
        code = "connection_refused"
    elif isinstance(error, aiohttp.ServerDisconnectedError):
        code = "disconnected"
        message = "the server closed the connection without an answer"
    elif isinstance(error.__cause__, aiohttp.http_exceptions.ContentEncodingError):
        kind = Kind.PROTOCOL
        code = "encoding"
        message = "the response cannot be decompressed"
    elif isinstance(error, aiohttp.ClientPayloadError):
        message = "the connection was closed before the end of the response"
    elif isinstance(error, aiohttp.ClientResponseError):
        kind = Kind.PROTOCOL
        code = "http"
        message = error.message
    elif isinstance(error, ValueError):
        kind = Kind.PROTOCOL
        code = "encoding"
    failure = Failure(phase, exception=error, kind=kind, code=code, message=message)
    if proxy is not None and code != "url":
        names = sorted((n for n in os.environ if n.lower().endswith("_proxy")), reverse=True)
        set_by = next((n for n in names if os.environ[n] == proxy), "the system's settings")
        said = redact(message, credentials_in({}, proxy))
        failure.message = f"{said}, through the proxy {public_url(proxy)} ({set_by})"
        if code != "tls":  # a `tls` error means that a connection existed
            failure.title = "No connection through the proxy"
            failure.resolution = f"Check {set_by} (http://host:port), or name the host in NO_PROXY."
    return failure

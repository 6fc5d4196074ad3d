"""What aiohttp or the system raised, as facts."""

from __future__ import annotations

import errno
import ssl

from swink_core.failures.failure import Failure, Phase
from swink_core.failures.redaction import public_url
from swink_core.vocabulary.outcome import StreamErrorKind as Kind


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
        kind, code = Kind.INVALID_REQUEST, "url"
        message = f"not an address: {public_url(str(error.url))}"
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
    elif isinstance(error, aiohttp.ClientResponseError):
        kind, code, message = Kind.PROTOCOL, "http", error.message
    elif isinstance(error, ValueError):
        kind, code = Kind.PROTOCOL, "encoding"
    return Failure(phase, exception=error, kind=kind, code=code, message=message)

"""Failures of connections and responses, with the codes that the core's HTTP client uses."""

from __future__ import annotations

import socket
from typing import Literal, TypeAlias

from swink_core import Failure, StreamErrorKind
from swink_core.providers import failure_of

_Phase: TypeAlias = Literal["connect", "streaming"]

TO_ADDRESS = ("connection", "connection_refused", "dns", "tls")
"""Codes whose message gets the address."""


def no_connection(error: Exception, host: str, port: int) -> Failure:
    """Describe why no connection was made. `error` is the system's, of DNS, TCP or TLS."""
    if isinstance(error, TimeoutError):  # ETIMEDOUT, and not the limit of the caller
        error = OSError(error.errno, error.strerror)
    failure = failure_of(error, "connect")
    if isinstance(error, socket.gaierror) and failure.code == "connection":
        failure.code = "dns"
    if failure.code in TO_ADDRESS:
        failure.message = f"cannot connect to {host}:{port} ({failure.message})"
    return failure


def not_in_time(error: TimeoutError) -> Failure:
    """Describe a connection that was not made within the connect timeout."""
    return failure_of(error, "connect")


def no_response(error: Exception | None) -> Failure:
    """Describe a connection that ended before the response. `None`: the server closed it."""
    if error is None:
        code = "disconnected"
        message = "the server closed the connection without an answer"
    else:
        code = "connection"
        message = str(error) or type(error).__name__
    return _network("connect", code, message, error)


def malformed(error: Exception, has_head: bool) -> Failure:
    """Describe a response that is not HTTP, or exceeds a limit."""
    return Failure(
        "streaming" if has_head else "connect",
        kind=StreamErrorKind.PROTOCOL,
        code="http",
        message=f"invalid HTTP response: {error}",
        exception=error,
    )


def cut_off(error: Exception | None) -> Failure:
    """Describe a body whose connection ended too early."""
    message = "the connection was closed before the end of the response"
    return _network("streaming", "cut", message, error)


def left() -> Failure:
    """Describe a read of a response that has been closed."""
    return _network("streaming", "connection", "the response is closed", None)


def not_inflated(error: Exception) -> Failure:
    """Describe a body that cannot be decompressed."""
    return Failure(
        "streaming",
        kind=StreamErrorKind.PROTOCOL,
        code="encoding",
        message="the response cannot be decompressed",
        exception=error,
    )


def _network(phase: _Phase, code: str, message: str, error: Exception | None) -> Failure:
    kind = StreamErrorKind.NETWORK
    return Failure(phase, kind=kind, code=code, message=message, exception=error)

"""Failures of connections and responses, with the codes that the core's HTTP client uses."""

from __future__ import annotations

import socket
from typing import Literal, TypeAlias

from swink_core import Failure, StreamErrorKind
from swink_core.providers import failure_of

_Phase: TypeAlias = Literal["connect", "streaming"]

TO_ADDRESS = ("connection", "connection_refused", "dns", "tls")
"""The codes of failures whose messages include the address of the server."""


def no_connection(error: Exception, host: str, port: int) -> Failure:
    """Return the failure for an error of DNS, TCP or TLS that prevented a connection."""
    if isinstance(error, TimeoutError):  # the system's ETIMEDOUT, not the caller's time limit
        error = OSError(error.errno, error.strerror)
    failure = failure_of(error, "connect")
    if isinstance(error, socket.gaierror) and failure.code == "connection":
        failure.code = "dns"
    if failure.code in TO_ADDRESS:
        failure.message = f"cannot connect to {host}:{port} ({failure.message})"
    return failure


def not_in_time(error: TimeoutError) -> Failure:
    """Return the failure for a connection that was not made within the connect timeout."""
    return failure_of(error, "connect")


def no_response(error: Exception | None) -> Failure:
    """Return the failure for a connection that ended before the response began.

    If `error` is `None`, the server closed the connection.
    """
    if error is None:
        code = "disconnected"
        message = "the server closed the connection without an answer"
    else:
        code = "connection"
        message = str(error) or type(error).__name__
    return _network("connect", code, message, error)


def malformed(error: Exception, has_head: bool) -> Failure:
    """Return the failure for a response that is not valid HTTP or exceeds a limit.

    `has_head` is true if the head of the response was complete.
    """
    return Failure(
        "streaming" if has_head else "connect",
        kind=StreamErrorKind.PROTOCOL,
        code="http",
        message=f"invalid HTTP response: {error}",
        exception=error,
    )


def cut_off(error: Exception | None) -> Failure:
    """Return the failure for a connection that ended before the end of the body."""
    message = "the connection was closed before the end of the response"
    return _network("streaming", "connection", message, error)


def left() -> Failure:
    """Return the failure for reading from a response that has been closed."""
    return _network("streaming", "connection", "the response is closed", None)


def not_inflated(error: Exception) -> Failure:
    """Return the failure for a body that cannot be decompressed."""
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

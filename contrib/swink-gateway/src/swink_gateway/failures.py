"""What became of a call, as HTTP says it; the words for each protocol are in its module."""

from __future__ import annotations

from swink_core import Error, InvalidModel, StreamError, SwinkError, UnknownProvider, UsageError
from swink_core import StreamErrorKind as Kind

__all__ = ["STATUSES", "headers_of", "of_exception", "status_of", "text_of"]

STATUSES: dict[Kind, int] = {
    Kind.THROTTLED: 429,
    Kind.OVERLOADED: 503,
    Kind.NETWORK: 502,
    Kind.EMPTY_RESPONSE: 502,
    Kind.TIMEOUT: 504,
    Kind.PROTOCOL: 502,
    Kind.AUTH: 401,
    Kind.QUOTA_EXHAUSTED: 429,
    Kind.CONTEXT_WINDOW_EXCEEDED: 400,
    Kind.CONTENT_FILTERED: 400,
    Kind.MODEL_NOT_FOUND: 404,
    Kind.INVALID_REQUEST: 400,
    Kind.UNSUPPORTED: 400,
    Kind.OUTPUT_TOO_LARGE: 502,
    Kind.RESOURCE: 503,
    Kind.CANCELLED: 503,
    Kind.INTERNAL: 500,
    Kind.UNKNOWN: 502,
}
"""RFC 9110 section 15: what a client does about each kind is up to it, by these."""

PASSING = (Kind.THROTTLED, Kind.OVERLOADED, Kind.NETWORK, Kind.TIMEOUT, Kind.QUOTA_EXHAUSTED)
"""What leaves nobody to ask when the last of several models failed so."""


def status_of(error: Error, models: int = 1) -> int:
    """Return the HTTP status of a failure, after which none of `models` models is left."""
    if models > 1 and error.error_kind in PASSING:
        return 503
    return STATUSES[error.error_kind or Kind.UNKNOWN]


def headers_of(error: Error) -> dict[str, str]:
    """Return headers that go with a failure."""
    if error.retry_after is None:
        return {}
    return {"Retry-After": str(max(1, round(error.retry_after)))}


def text_of(error: Error) -> str:
    """Return what went wrong and what to do, for people."""
    lines = (error.error_message or error.title, error.resolution)
    return "\n".join(line for line in lines if line)


def of_exception(error: SwinkError) -> Error:
    """Return what stands in the way of a call as the error that it would end in."""
    kind = Kind.INTERNAL
    if isinstance(error, StreamError):
        kind = error.kind
    elif isinstance(error, UnknownProvider | InvalidModel):
        kind = Kind.MODEL_NOT_FOUND
    elif isinstance(error, UsageError):
        kind = Kind.INVALID_REQUEST
    made = Error(error_message=error.message, error_kind=kind)
    made.title, made.resolution = error.title, error.resolution
    return made

"""Failures that do not come from the provider: exceptions, limits, cancellation by the caller."""

from __future__ import annotations

from swink_core.failures.exceptions import ProviderFailure, UsageError
from swink_core.failures.failure import Failure
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

CLOSED = "closed"
"""The error code of a call that ended because the caller closed the stream."""

FAULT = "plugin"
"""The error code of an attempt in which a plugin raised an exception."""


def raised(error: Exception) -> Failure:
    """Convert an exception from a plugin's iterator to a failure.

    An unexpected exception is a bug in the plugin and gets the kind `internal`.
    """
    if isinstance(error, ProviderFailure):
        return error.failure
    if isinstance(error, UsageError):
        kind = Kind.INVALID_REQUEST
        return Failure("request", kind=kind, message=str(error), exception=error)
    kind = Kind.INTERNAL
    code = FAULT
    message = str(error)
    if isinstance(error, MemoryError):
        kind = Kind.RESOURCE
        code = "no_memory"
        message = "memory ran out while the answer was received"
    return Failure("streaming", kind=kind, code=code, message=message, exception=error)


def not_a_body(plugin: str, result: object) -> Failure:
    """Return the failure for a `convert_messages` hook that did not return a JSON body."""
    what = f'plugin "{plugin}": convert_messages returned {type(result).__name__}'
    message = f"{what}, not a dict with the JSON body of the request"
    return Failure("request", kind=Kind.INTERNAL, code="body", message=message)


def too_large(limit: float) -> Failure:
    """Return the failure for an answer longer than `limit` characters."""
    message = f"the answer is longer than {limit:.0f} characters"
    return Failure("streaming", kind=Kind.OUTPUT_TOO_LARGE, code="size", message=message)


def abandoned() -> Failure:
    """Return the failure for a stream that the caller closed."""
    message = "closed by the caller"
    return Failure("streaming", kind=Kind.CANCELLED, code=CLOSED, message=message)

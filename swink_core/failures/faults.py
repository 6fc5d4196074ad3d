"""Failures from outside the source: exceptions, limits, and cancellation by the caller."""

from __future__ import annotations

from swink_core.failures.exceptions import ProviderFailure, UsageError
from swink_core.failures.failure import Failure
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

CLOSED = "closed"
"""The code of a failure that is the caller's: the stream was closed."""

FAULT = "plugin"
"""The code of a failure that is a fault in the plugin's code."""


def raised(error: Exception) -> Failure:
    """Convert an exception from a plugin's iterator to a failure.

    An unexpected exception is `internal`, a bug of the plugin.
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
    """Say that a plugin's `convert_messages` returned something else than a JSON body."""
    what = f'plugin "{plugin}": convert_messages returned {type(result).__name__}'
    message = f"{what}, not a dict with the JSON body of the request"
    return Failure("request", kind=Kind.INTERNAL, code="body", message=message)


def too_large(limit: float) -> Failure:
    """Say that an answer passed `limit` characters."""
    message = f"the answer is longer than {limit:.0f} characters"
    return Failure("streaming", kind=Kind.OUTPUT_TOO_LARGE, code="size", message=message)


def abandoned() -> Failure:
    """Say that the caller closed the stream."""
    message = "closed by the caller"
    return Failure("streaming", kind=Kind.CANCELLED, code=CLOSED, message=message)

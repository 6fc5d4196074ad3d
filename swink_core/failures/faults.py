"""Failures that do not come from the provider: exceptions, limits, cancellation by the caller."""

from __future__ import annotations

from functools import partial
from signal import default_int_handler, getsignal, valid_signals
from traceback import walk_tb
from typing import Any

from swink_core.failures.exceptions import ProviderFailure, UsageError
from swink_core.failures.failure import Failure
from swink_core.vocabulary.outcome import StreamErrorKind as Kind

CLOSED = "closed"
"""The error code of a call that ended because the caller closed the stream."""

FAULT = "plugin"
"""The error code of an attempt in which a plugin raised an exception."""


def ends_program(error: SystemExit) -> bool:
    """Return True if a handler of a signal raised SystemExit, and not a plugin.

    A program may end itself with `sys.exit()` in such a handler, which Python calls in the middle
    of any code. If a handler is an object whose code cannot be determined, the result is True.
    """
    handlers = [getsignal(number) for number in valid_signals()]
    codes = {_code_of(handler) for handler in handlers if callable(handler)}
    return None in codes or any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))


def _code_of(handler: Any) -> Any:
    if handler is default_int_handler:
        return handler  # raises another exception
    if isinstance(handler, partial):
        handler = handler.func
    function = getattr(handler, "__func__", handler)
    return getattr(function, "__code__", None)


def raised(error: BaseException) -> Failure:
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


def not_events(plugin: str, result: object) -> Failure:
    """Return the failure for a `stream` hook that did not return an async iterator."""
    what = f"the stream hook must return an async iterator, not {type(result).__name__}"
    message = (
        f'plugin "{plugin}" returned no events: {what}; write it as a plain def with @hookimpl'
    )
    return Failure("streaming", kind=Kind.INTERNAL, code=FAULT, message=message)


def not_json(plugin: str, error: Exception) -> Failure:
    """Return the failure for a `convert_messages` hook whose body cannot be converted to JSON."""
    what = f'plugin "{plugin}": the body that convert_messages returned cannot be converted to JSON'
    return Failure("request", kind=Kind.INTERNAL, code=FAULT, message=f"{what}: {error}")


def too_large(limit: float) -> Failure:
    """Return the failure for an answer longer than `limit` characters."""
    message = f"the answer is longer than {limit:.0f} characters"
    return Failure("streaming", kind=Kind.OUTPUT_TOO_LARGE, code="size", message=message)


def abandoned() -> Failure:
    """Return the failure for a stream that the caller closed."""
    message = "closed by the caller"
    return Failure("streaming", kind=Kind.CANCELLED, code=CLOSED, message=message)

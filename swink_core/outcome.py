"""How an answer ended and what it took: the vocabulary that every other module may name."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from attrs import define, field, fields

__all__ = ["Cost", "StopReason", "StreamErrorKind", "Usage"]


class StopReason(StrEnum):
    """Why an answer ended, in provider-neutral terms."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_USE = "tool_use"
    CONTENT_FILTER = "content_filter"
    PAUSE = "pause"
    """The provider wants to be called again with the same conversation."""
    ERROR = "error"
    ABORTED = "aborted"


class StreamErrorKind(StrEnum):
    """What kind of failure ended a stream; retry and fallback are decided by it alone."""

    THROTTLED = "throttled"
    OVERLOADED = "overloaded"
    NETWORK = "network"
    EMPTY_RESPONSE = "empty_response"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    AUTH = "auth"
    QUOTA_EXHAUSTED = "quota_exhausted"
    CONTEXT_WINDOW_EXCEEDED = "context_window_exceeded"
    CONTENT_FILTERED = "content_filtered"
    MODEL_NOT_FOUND = "model_not_found"
    INVALID_REQUEST = "invalid_request"
    UNSUPPORTED = "unsupported"
    OUTPUT_TOO_LARGE = "output_too_large"
    RESOURCE = "resource"
    CANCELLED = "cancelled"
    INTERNAL = "internal"
    UNKNOWN = "unknown"


def _add(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


@define
class Usage:
    """Tokens that an answer took. A number that the provider did not report is `None`, not 0.

    `cache_read` and `cache_write` are parts of `input`, and `reasoning` is a part of `output`,
    whichever way the provider counts; `total` is the provider's own figure, or `input + output`
    where both are known. `extra` holds provider-specific figures. `reported` is false while
    nothing has come from the provider.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    total: int | None = None
    extra: dict[str, Any] = field(factory=dict)
    reported: bool = False

    def __add__(self, other: Usage) -> Usage:
        """This will return the sum of two attempts; a number unknown in both stays unknown."""
        return Usage(
            _add(self.input, other.input),
            _add(self.output, other.output),
            _add(self.cache_read, other.cache_read),
            _add(self.cache_write, other.cache_write),
            _add(self.reasoning, other.reasoning),
            _add(self.total, other.total),
            {**self.extra, **other.extra},
            self.reported or other.reported,
        )


@define
class Cost:
    """US dollars, part by part; `None` where a price or a count is unknown.

    `input` is the part of the input that was neither read from nor written to a cache.
    """

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    total: float | None = None

    def __add__(self, other: Cost) -> Cost:
        """This will return the sum of two attempts' costs."""
        return Cost(*(_add(getattr(self, f.name), getattr(other, f.name)) for f in fields(Cost)))

"""Classify the errors of the API: https://platform.claude.com/docs/en/api/errors.

The error types are broad (`invalid_request_error` covers an exceeded context window, an empty
account and an invalid parameter), so the text of the message is matched first.
"""

from __future__ import annotations

from swink_core import Classification, Failure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import by_tables

__all__ = ["classify"]

WORDINGS = (
    ("prompt is too long", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("input is too long", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("exceed context limit", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("exceeds the context window", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("credit balance is too low", Kind.QUOTA_EXHAUSTED),
    ("api usage limits", Kind.QUOTA_EXHAUSTED),  # "You have reached your specified …", until a date
    ("required for long context requests", Kind.QUOTA_EXHAUSTED),
    ("content filtering policy", Kind.CONTENT_FILTERED),
)

TYPES = {
    "authentication_error": Kind.AUTH,
    "permission_error": Kind.AUTH,
    "billing_error": Kind.QUOTA_EXHAUSTED,
    "not_found_error": Kind.MODEL_NOT_FOUND,
    "invalid_request_error": Kind.INVALID_REQUEST,
    "exceed_context_size_error": Kind.CONTEXT_WINDOW_EXCEEDED,  # llama.cpp with this API
    "request_too_large": Kind.INVALID_REQUEST,
    "rate_limit_error": Kind.THROTTLED,
    "overloaded_error": Kind.OVERLOADED,
    "timeout_error": Kind.NETWORK,
    "api_error": Kind.NETWORK,
}

STATUSES = {409: Kind.OVERLOADED}
"""409 is a conflict with another request. The vendor's own client retries after this status."""


def classify(failure: Failure) -> Classification | None:
    """Classify a failure by the header `x-should-retry`, then by its message, then by its type.

    The API sends the header `x-should-retry` if the status is misleading: `false` for a limit that
    remains however long the caller waits, `true` for a temporary rejection.
    """
    found = by_tables(failure, {}, WORDINGS) or by_tables(failure, TYPES, (), STATUSES)
    if found is None:
        return None
    advice = next((v for n, v in failure.headers.items() if n.lower() == "x-should-retry"), None)
    if advice == "false" and found.kind is Kind.THROTTLED:
        return Classification(Kind.QUOTA_EXHAUSTED, found.retry_after, found.code)
    if advice == "true" and found.kind is Kind.INVALID_REQUEST:
        return Classification(Kind.OVERLOADED, found.retry_after, found.code)
    return found

"""Errors in the format of Anthropic's API: https://platform.claude.com/docs/en/api/errors."""

from __future__ import annotations

from typing import Any

from swink_core import Error
from swink_core import StreamErrorKind as Kind
from swink_gateway.protocols import Reply
from swink_gateway.protocols.failures import STATUSES, headers_of, text_of
from swink_gateway.protocols.frames import encode

__all__ = ["error_data", "error_reply"]

_BY_STATUS = {
    400: "invalid_request_error",
    404: "not_found_error",
    429: "rate_limit_error",
    504: "timeout_error",
}

_SPECIAL = {Kind.OVERLOADED: "overloaded_error", Kind.QUOTA_EXHAUSTED: "billing_error"}


def _word(kind: Kind, status: int) -> str:
    general = "api_error" if status >= 500 else "invalid_request_error"
    return _SPECIAL.get(kind, _BY_STATUS.get(status, general))


ERRORS = {kind: _word(kind, status) for kind, status in STATUSES.items()}
"""The error type for each kind of failure: https://platform.claude.com/docs/en/api/errors."""

_OF_STATUS = {408: "timeout_error", 413: "request_too_large", 504: "timeout_error"}
"""The error types that depend on the status and not on the kind of the failure."""

NO_THREADS = "thread_unsupported_request"
"""The error type after which SDKs that support threads of messages continue without a thread."""

UNAVAILABLE = 503
"""The only status for which Claude Code obeys `x-should-retry: false`."""


def error_data(error: Error, status: int | None = None) -> dict[str, Any]:
    """Return a failure as the body of an error or, without a status, the data of an event."""
    word = _OF_STATUS.get(status or 0, ERRORS[error.error_kind or Kind.UNKNOWN])
    said: dict[str, Any] = {"type": word, "message": text_of(error)}
    if error.retry_after is not None:
        said["retry_after"] = error.retry_after
    if error.code == NO_THREADS:
        said["details"] = {"error_code": NO_THREADS, "unsupported": ["thread"]}
    return {"type": "error", "error": said}


def error_reply(error: Error, status: int) -> Reply:
    """Return the response for a failure before the answer."""
    if error.error_kind is Kind.AUTH:
        status = UNAVAILABLE
    return Reply(status, encode(error_data(error, status)), headers_of(error))

"""Classify the errors of the API: https://ai.google.dev/gemini-api/docs/troubleshooting.

An error object contains a canonical status name (https://grpc.io/docs/guides/status-codes/) and
details (https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto): the
name of the reason, the quotas that were exceeded, and how long to wait. This object is the body of
an HTTP error, or a frame of a stream. The HTTP status of such a stream is 200, so only the error
object contains the status of the error.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from swink_core import Classification, Failure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import by_tables, wait_seconds

__all__ = ["BLOCKED_PROMPT", "classify", "read_error"]

BLOCKED_PROMPT = "blocked_prompt"
"""The `type` of the failure for a prompt that Gemini blocked; its `code` is the `blockReason`."""

REASONS = {
    BLOCKED_PROMPT: Kind.CONTENT_FILTERED,
    "API_KEY_INVALID": Kind.AUTH,  # with the status 400
    "BILLING_DISABLED": Kind.QUOTA_EXHAUSTED,
    "QUOTA_EXHAUSTED": Kind.QUOTA_EXHAUSTED,
    "RATE_LIMIT_EXCEEDED": Kind.THROTTLED,
    "MODEL_CAPACITY_EXHAUSTED": Kind.OVERLOADED,
    # finish reasons that mean a failure; a retry may succeed
    "MALFORMED_FUNCTION_CALL": Kind.EMPTY_RESPONSE,
    "MALFORMED_RESPONSE": Kind.EMPTY_RESPONSE,
    "UNEXPECTED_TOOL_CALL": Kind.EMPTY_RESPONSE,
    "MISSING_THOUGHT_SIGNATURE": Kind.INVALID_REQUEST,
    "PUP_LIMITED_DISABLED": Kind.AUTH,  # the account violated the terms of use
    "partial_args": Kind.PROTOCOL,
}
"""Failure codes that are more specific than the status, with the kind of failure.

The codes of the API's `ErrorInfo` are listed at
https://github.com/googleapis/googleapis/blob/master/google/api/error_reason.proto.
"""

WORDINGS = (
    ("exceeds the maximum number of tokens", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("exceeds the context window", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("limit: 0", Kind.QUOTA_EXHAUSTED),  # the plan does not include the model
    ("credits are depleted", Kind.QUOTA_EXHAUSTED),
    ("spending cap", Kind.QUOTA_EXHAUSTED),
    ("enable billing", Kind.QUOTA_EXHAUSTED),
    ("api key expired", Kind.AUTH),
    ("api key not valid", Kind.AUTH),
    ("user location is not supported", Kind.UNSUPPORTED),
    ("cachedcontent", Kind.INVALID_REQUEST),  # names a retired model, with status 403 or 404
    ("cache content", Kind.INVALID_REQUEST),  # Vertex AI's wording, with status 404
    ("cached content", Kind.INVALID_REQUEST),
)

STATUS_WORDS = {
    "INVALID_ARGUMENT": Kind.INVALID_REQUEST,
    "FAILED_PRECONDITION": Kind.INVALID_REQUEST,
    "OUT_OF_RANGE": Kind.INVALID_REQUEST,
    "ALREADY_EXISTS": Kind.INVALID_REQUEST,
    "UNAUTHENTICATED": Kind.AUTH,
    "PERMISSION_DENIED": Kind.AUTH,
    "NOT_FOUND": Kind.MODEL_NOT_FOUND,
    "RESOURCE_EXHAUSTED": Kind.THROTTLED,
    "UNAVAILABLE": Kind.OVERLOADED,
    "UNIMPLEMENTED": Kind.UNSUPPORTED,
    "ABORTED": Kind.NETWORK,
    "CANCELLED": Kind.NETWORK,
    "DATA_LOSS": Kind.NETWORK,
    "DEADLINE_EXCEEDED": Kind.NETWORK,
    "INTERNAL": Kind.NETWORK,
    "UNKNOWN": Kind.NETWORK,
}

_PER_DAY = "perday"
_TRY_AGAIN = re.compile(r"retry in ([\d.]+\s?(?:ms|s|m|h)[\dhms.]*)", re.I)


class _Detail(msgspec.Struct, rename="camel"):
    reason: str | None = None
    retry_delay: str | None = None
    violations: list[dict[str, Any]] | None = None


class _Error(msgspec.Struct):
    code: Any = None
    message: str | None = None
    status: str | None = None
    details: list[_Detail] | None = None


class _Body(msgspec.Struct):
    error: _Error | str | None = None


_decode = msgspec.json.Decoder(_Body | list[_Body]).decode


def read_error(failure: Failure) -> None:
    """Set `type`, `code` and the other facts of a failure from its body.

    `type` is the status name. `code` is the first of these values that the body contains: the name
    of an exhausted daily quota, the reason, the status name.
    """
    try:
        bodies = _decode(failure.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    body = bodies if isinstance(bodies, _Body) else next(iter(bodies), _Body())
    error = _Error(message=body.error) if isinstance(body.error, str) else body.error
    if error is None:
        return
    details = error.details or []
    quotas = [str(v.get("quotaId")) for d in details for v in d.violations or ()]
    day = next((quota for quota in quotas if _PER_DAY in quota.lower()), None)
    reason = next((detail.reason for detail in details if detail.reason), None)
    delays = [detail.retry_delay for detail in details if detail.retry_delay]
    if not delays and (wait := _TRY_AGAIN.search(error.message or "")):
        delays = [wait[1].rstrip(".")]
    if failure.status is None and isinstance(error.code, int):
        failure.status = error.code
    failure.code = day or reason or error.status
    failure.type = error.status
    failure.message = error.message
    failure.retry_after = wait_seconds(delays[0]) if delays and not day else None


def classify(failure: Failure) -> Classification | None:
    """Classify a failure by its quota and reason, then by its message, then by its status name."""
    if failure.code and _PER_DAY in failure.code.lower():
        return Classification(Kind.QUOTA_EXHAUSTED, None, failure.code)
    return by_tables(failure, REASONS, WORDINGS) or by_tables(failure, STATUS_WORDS)

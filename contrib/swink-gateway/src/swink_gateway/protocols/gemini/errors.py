"""Errors in the format of Google's APIs: https://cloud.google.com/apis/design/errors.

An error has a code, a status name and details: the reason (`ErrorInfo`) and how long to wait
(`RetryInfo`). A prompt that is refused for its content is not an error in this API, but an answer
without candidates, with the reason in `promptFeedback`.
"""

from __future__ import annotations

from typing import Any

from swink_core import Error
from swink_core import StreamErrorKind as Kind
from swink_gateway.protocols import Reply
from swink_gateway.protocols.failures import headers_of, standard_status, text_of
from swink_gateway.protocols.frames import encode
from swink_gateway.protocols.gemini.parts import usage_data

__all__ = ["blocked_prompt", "error_data", "error_reply", "is_blocked_prompt"]

_BY_STATUS = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
"""The status names: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto."""

_SPECIAL: dict[Kind, tuple[str, str]] = {
    Kind.THROTTLED: ("RESOURCE_EXHAUSTED", "RATE_LIMIT_EXCEEDED"),
    Kind.OVERLOADED: ("UNAVAILABLE", ""),
    Kind.EMPTY_RESPONSE: ("INTERNAL", "MALFORMED_RESPONSE"),
    Kind.PROTOCOL: ("DATA_LOSS", ""),
    Kind.AUTH: ("FAILED_PRECONDITION", ""),
    Kind.QUOTA_EXHAUSTED: ("RESOURCE_EXHAUSTED", "QUOTA_EXHAUSTED"),
    Kind.UNSUPPORTED: ("UNIMPLEMENTED", ""),
    Kind.OUTPUT_TOO_LARGE: ("OUT_OF_RANGE", ""),
    Kind.CANCELLED: ("CANCELLED", ""),
    Kind.UNKNOWN: ("UNKNOWN", ""),
}


def _words(kind: Kind, status: int) -> tuple[str, str]:
    """Return the status name and the reason of a failure."""
    general = "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"
    return _SPECIAL.get(kind, (_BY_STATUS.get(status, general), ""))


PRECONDITION = 400
"""The status of `FAILED_PRECONDITION`: clients must not retry before the state is fixed.

Gemini CLI retries any 5xx ten times, and no header prevents that.
"""

_TYPES = "type.googleapis.com/google.rpc."


def error_data(error: Error, status: int) -> dict[str, Any]:
    """Return the value of the field `error`."""
    kind = error.error_kind or Kind.UNKNOWN
    code = PRECONDITION if kind is Kind.AUTH else status
    word, reason = _words(kind, code)
    data = {"code": code, "message": text_of(error), "status": word}
    details: list[dict[str, Any]] = []
    if reason:
        info = {"reason": reason, "domain": "googleapis.com"}
        details.append({"@type": f"{_TYPES}ErrorInfo", **info})
    if error.retry_after is not None:
        delay = f"{error.retry_after:.3f}".rstrip("0").rstrip(".")
        details.append({"@type": f"{_TYPES}RetryInfo", "retryDelay": f"{delay}s"})
    return {**data, "details": details} if details else data


def is_blocked_prompt(error: Error) -> bool:
    """Return True if a failure is reported as an answer without candidates.

    A refusal that an upstream reports with an HTTP status is reported as an error, because Gemini
    CLI would retry an answer without candidates three times.
    """
    return error.error_kind is Kind.CONTENT_FILTERED and (error.status or 200) < 400


def blocked_prompt(error: Error) -> dict[str, Any]:
    """Return the answer to a prompt that is refused for its content."""
    why = {"blockReason": "SAFETY", **((error.metadata or {}).get("promptFeedback") or {})}
    answer: dict[str, Any] = {"promptFeedback": {**why, "blockReasonMessage": text_of(error)}}
    if counts := usage_data(error.usage, error.cost, own=False):
        answer["usageMetadata"] = counts
    return answer


def error_reply(error: Error, status: int) -> Reply:
    """Return the response for a failure before the answer."""
    if is_blocked_prompt(error):
        return Reply(200, encode(blocked_prompt(error)))
    data = error_data(error, standard_status(status))
    return Reply(data["code"], encode({"error": data}), headers_of(error))

"""Parse and classify the errors of services with OpenAI's APIs.

An HTTP error response and an error in a stream contain the same JSON objects, so the same function
and tables are used for both.
"""

from __future__ import annotations

import re
from typing import Any

from swink_core import Classification, Failure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import by_tables, wait_seconds

__all__ = ["classify", "read_error", "word"]


def read_error(data: Any, failure: Failure) -> bool:
    """Read an error into `failure`; return `False` if `data` has none of the known shapes.

    The known shapes are `{"error": {message, type, code}}` (most services),
    `{"code", "error": "text"}` (xAI), `{"object": "error", message, type, code}` (vLLM, Mistral),
    `{message, type, code}` (gateways), and `{"detail": …}` (web frameworks). If the HTTP response
    has no error status, a `code` or `status_code` from 400 to 599 is used as the status.
    """
    if isinstance(data, list) and data:
        data = data[0]
    if not isinstance(data, dict):
        return False
    error = data.get("error") or None
    groq = data.get("x_groq")
    if error is None and isinstance(groq, dict):
        error = groq.get("error")
    if isinstance(error, str):
        error = {**data, "message": error}
    elif error is None and ("error" in (data.get("object"), data.get("type")) or _is_bare(data)):
        error = data
    elif error is None and data.get("detail"):
        error = {"message": _text(data["detail"])}
    if not isinstance(error, dict):
        return False
    failure.code = failure.code or word(error.get("code"))
    failure.type = failure.type or word(error.get("type"))
    failure.message = failure.message or _message(error)
    if failure.status is None or failure.status < 300:
        own = _status(error.get("status_code")) or _status(error.get("code"))
        failure.status = own or failure.status
    return True


def _is_bare(data: dict[str, Any]) -> bool:
    """Return True if the body itself is an error: only errors have a message and a code."""
    return isinstance(data.get("message"), str) and data.get("code") is not None


def _message(error: dict[str, Any]) -> str:
    message = _text(error.get("message") or error.get("detail") or "")
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None  # OpenRouter's upstream error
    # Groq: this field contains the model's output, which could not be parsed as a tool call.
    said = error.get("failed_generation")
    if isinstance(said, str) and said:
        message += f" The model said: {said}"
    parts = [part for part in (message, _text(raw) if raw else "") if part]
    return ": ".join(parts) or "the provider reported an error without a message"


def _text(value: Any) -> str:
    """Return a value as text, for example a list of validation errors."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "; ".join(map(_text, value))
    if isinstance(value, dict):
        return _text(value.get("msg") or value.get("message") or str(value))
    return str(value)


def word(value: Any) -> str | None:
    """Return an id, a name or a code as text, or `None` for other values."""
    return str(value) if isinstance(value, str | int) and value != "" else None


def _status(value: Any) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else None


SPECIFIC_CODES: dict[str, Kind] = {
    "context_length_exceeded": Kind.CONTEXT_WINDOW_EXCEEDED,
    "exceed_context_size_error": Kind.CONTEXT_WINDOW_EXCEEDED,  # llama.cpp
    "tokens_limit_reached": Kind.CONTEXT_WINDOW_EXCEEDED,  # Azure
    "too_many_prompt_tokens": Kind.CONTEXT_WINDOW_EXCEEDED,  # Perplexity
    "insufficient_quota": Kind.QUOTA_EXHAUSTED,
    "billing_hard_limit_reached": Kind.QUOTA_EXHAUSTED,
    "billing_not_active": Kind.QUOTA_EXHAUSTED,
    "usage_not_included": Kind.QUOTA_EXHAUSTED,
    "QUOTA_EXHAUSTED": Kind.QUOTA_EXHAUSTED,
    "content_filter": Kind.CONTENT_FILTERED,  # Azure
    "content_policy_violation": Kind.CONTENT_FILTERED,
    "invalid_prompt": Kind.CONTENT_FILTERED,
    "ResponsibleAIPolicyViolation": Kind.CONTENT_FILTERED,
}

SPECIFIC_WORDINGS: tuple[tuple[str, Kind], ...] = (
    ("invalid api key", Kind.AUTH),  # the reason for closing a WebSocket
    ("maximum context length", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("max context length", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("context window", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("context limit", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("available context size", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("maximum prompt length", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("prompt is too long", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("prompt too long", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("input is too long", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("too many input tokens", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("exceeds the maximum number of tokens", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("too large for model", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("tokens must be reduced", Kind.CONTEXT_WINDOW_EXCEEDED),  # OpenAI, with a 429
    ("current quota", Kind.QUOTA_EXHAUSTED),
    ("insufficient balance", Kind.QUOTA_EXHAUSTED),
    ("insufficient credits", Kind.QUOTA_EXHAUSTED),
    ("requires more credits", Kind.QUOTA_EXHAUSTED),
    ("used all available credits", Kind.QUOTA_EXHAUSTED),  # xAI
    ("per day", Kind.QUOTA_EXHAUSTED),
    ("per-day", Kind.QUOTA_EXHAUSTED),
    ("limit: 0,", Kind.QUOTA_EXHAUSTED),
    ("content management policy", Kind.CONTENT_FILTERED),
    ("usage guidelines", Kind.CONTENT_FILTERED),  # xAI, with a 403
    ("requires moderation", Kind.CONTENT_FILTERED),  # OpenRouter, with a 403
)
"""Wordings of messages that take precedence over an error code.

Some services send one code for different errors, for example for a rate limit and a daily limit.
"""

CODES: dict[str, Kind] = {
    "invalid_api_key": Kind.AUTH,
    "authentication_error": Kind.AUTH,
    "permission_denied": Kind.AUTH,
    "forbidden": Kind.AUTH,
    "rate_limit_exceeded": Kind.THROTTLED,
    "rate_limit_error": Kind.THROTTLED,
    "rate_limited": Kind.THROTTLED,  # Mistral
    "RateLimitReached": Kind.THROTTLED,  # Azure
    "too_many_requests": Kind.THROTTLED,
    "slow_down": Kind.OVERLOADED,
    "server_is_overloaded": Kind.OVERLOADED,
    "overloaded_error": Kind.OVERLOADED,
    "close_1008": Kind.INVALID_REQUEST,  # RFC 6455 section 7.4.1: a policy was violated
    "close_1013": Kind.OVERLOADED,  # IANA's registry of close codes: try again later
    "MODEL_CAPACITY_EXHAUSTED": Kind.OVERLOADED,
    "insufficient_system_resource": Kind.OVERLOADED,  # DeepSeek's finish reason
    "model_not_found": Kind.MODEL_NOT_FOUND,
    "model_decommissioned": Kind.MODEL_NOT_FOUND,  # Groq
    "model_not_available": Kind.MODEL_NOT_FOUND,
    "invalid_model": Kind.MODEL_NOT_FOUND,  # Mistral, with a 400
    "DeploymentNotFound": Kind.MODEL_NOT_FOUND,  # Azure
    # Groq: the model's call did not match the schema; a retry may succeed
    "tool_use_failed": Kind.EMPTY_RESPONSE,
}

WORDINGS: tuple[tuple[str, Kind], ...] = (
    ("incorrect api key", Kind.AUTH),  # xAI, with a 400
    ("throttling", Kind.THROTTLED),  # Qwen
    ("overloaded", Kind.OVERLOADED),
    ("at capacity", Kind.OVERLOADED),
    ("over capacity", Kind.OVERLOADED),  # Groq
    ("is not a valid model", Kind.MODEL_NOT_FOUND),  # OpenRouter, with a 400
    ("has been decommissioned", Kind.MODEL_NOT_FOUND),
    ("supported api model names are", Kind.MODEL_NOT_FOUND),  # DeepSeek, with a 400
    ("no endpoints found that support", Kind.UNSUPPORTED),  # OpenRouter, with a 404
    ("image input is not supported", Kind.UNSUPPORTED),  # llama.cpp, with a 500
    ("cannot use both", Kind.INVALID_REQUEST),  # llama.cpp, with a 500
)

GENERAL: dict[str, Kind] = {
    "invalid_request_error": Kind.INVALID_REQUEST,
    "BadRequestError": Kind.INVALID_REQUEST,  # vLLM
    "NotFoundError": Kind.MODEL_NOT_FOUND,
    "not_found_error": Kind.MODEL_NOT_FOUND,
    "service_unavailable": Kind.OVERLOADED,
    "server_error": Kind.NETWORK,
    "api_error": Kind.NETWORK,
    "internal_server_error": Kind.NETWORK,
    "InternalServerError": Kind.NETWORK,
    "error": Kind.NETWORK,  # a finish reason
    "error_finish": Kind.NETWORK,  # Qwen's
    "abort": Kind.NETWORK,  # a finish reason
}
"""Codes that are as general as an HTTP status; used only for errors without an error status."""

_TRY_AGAIN = re.compile(r"(?:try again|retry) (?:in|after) ([\d.]+\s?(?:ms|s|m|h)[\d.hms]*)", re.I)


def classify(failure: Failure) -> Classification | None:
    """Classify a failure by the tables of this module.

    Return `None` if the tables do not contain the error; the caller then classifies the failure by
    its HTTP status.

    The time to wait before a retry is also read from messages such as "Please try again in 6.78s"
    (OpenAI, Groq).
    """
    found = by_tables(failure, SPECIFIC_CODES, SPECIFIC_WORDINGS) or by_tables(
        failure, CODES, WORDINGS
    )
    if found is None and (failure.status is None or failure.status < 300):
        found = by_tables(failure, GENERAL)
    if found is not None and found.retry_after is None:
        wait = _TRY_AGAIN.search(failure.message or "")
        found.retry_after = wait_seconds(wait[1].rstrip(".")) if wait else None
    return found

"""Errors as OpenAI's APIs word them: https://developers.openai.com/api/docs/guides/error-codes."""

from __future__ import annotations

from typing import Any

from swink_core import Error
from swink_core import StreamErrorKind as Kind
from swink_gateway.failures import headers_of, text_of
from swink_gateway.protocols import Reply
from swink_gateway.protocols.frames import encode

__all__ = ["error_code", "error_data", "error_reply"]

_WORDS: dict[Kind, tuple[str, str]] = {
    Kind.THROTTLED: ("rate_limit_error", "rate_limit_exceeded"),
    Kind.OVERLOADED: ("server_error", "server_is_overloaded"),
    Kind.AUTH: ("authentication_error", "invalid_api_key"),
    Kind.QUOTA_EXHAUSTED: ("insufficient_quota", "insufficient_quota"),
    Kind.CONTEXT_WINDOW_EXCEEDED: ("invalid_request_error", "context_length_exceeded"),
    Kind.CONTENT_FILTERED: ("invalid_request_error", "content_filter"),
    Kind.MODEL_NOT_FOUND: ("invalid_request_error", "model_not_found"),
    Kind.INVALID_REQUEST: ("invalid_request_error", "invalid_request"),
    Kind.UNSUPPORTED: ("invalid_request_error", "unsupported"),
}
"""Type and code of a failure; of any other kind, `server_error`."""


def error_code(error: Error) -> str:
    """Return the word by which clients decide whether to ask again."""
    return _WORDS.get(error.error_kind or Kind.UNKNOWN, ("", "server_error"))[1]


def error_data(error: Error) -> dict[str, Any]:
    """Return an error as the value of the field `error`; `retry_after` is in seconds."""
    kind, code = _WORDS.get(error.error_kind or Kind.UNKNOWN, ("server_error", "server_error"))
    data: dict[str, Any] = {"message": text_of(error), "type": kind, "param": None, "code": code}
    if error.retry_after is not None:
        data["retry_after"] = error.retry_after
    return data


def error_reply(error: Error, status: int) -> Reply:
    """Return what says that there is no answer."""
    return Reply(status, encode({"error": error_data(error)}), headers_of(error))

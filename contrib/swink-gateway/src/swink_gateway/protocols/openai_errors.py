"""Errors in OpenAI's format: https://developers.openai.com/api/docs/guides/error-codes."""

from __future__ import annotations

import re
from math import ceil
from typing import Any

from swink_core import Error
from swink_core import StreamErrorKind as Kind
from swink_gateway.protocols import Reply
from swink_gateway.protocols.failures import STATUSES, headers_of, standard_status, text_of
from swink_gateway.protocols.frames import encode

__all__ = ["error_data", "error_reply", "final_in_responses"]

Words = tuple[str, str]

_SERVER: Words = ("server_error", "server_error")

_SPECIAL: dict[Kind, Words] = {
    Kind.THROTTLED: ("rate_limit_error", "rate_limit_exceeded"),
    Kind.OVERLOADED: ("server_error", "server_is_overloaded"),
    Kind.AUTH: ("upstream_error", "upstream_credentials"),
    Kind.QUOTA_EXHAUSTED: ("insufficient_quota", "insufficient_quota"),
    Kind.CONTEXT_WINDOW_EXCEEDED: ("invalid_request_error", "context_length_exceeded"),
    Kind.CONTENT_FILTERED: ("invalid_request_error", "content_filter"),
}


def _words(kind: Kind, status: int) -> Words:
    general = _SERVER if status >= 500 else ("invalid_request_error", kind.value)
    return _SPECIAL.get(kind, general)


_CODES = frozenset({"content_filter", "content_policy_violation"})
"""Vendors' codes that clients distinguish; these codes are not replaced by the kind's code."""

_OPENAI_CODE = re.compile("(?!.*_error$)[a-z][a-z0-9_]*")
"""Matches OpenAI's codes of an invalid request, for example `invalid_value`.

Other vendors send the type of the error as its code.
"""

_WORDS = {kind: _words(kind, status) for kind, status in STATUSES.items()}
"""The type and code for each kind of failure."""

_WRONG: Words = ("invalid_request_error", "invalid_prompt")

_FINAL: dict[Kind, Words] = {
    kind: _WRONG
    for kind, status in STATUSES.items()
    if kind is Kind.AUTH
    or (status < 500 and status != 429 and kind is not Kind.CONTEXT_WINDOW_EXCEEDED)
}
"""The type and code of a `response.failed` that Codex does not retry, by kind of failure.

Codex retries a failure with any other code five times.
"""


def final_in_responses(error: Error) -> Words | None:
    """Return the type and code of a failed response that clients must not retry."""
    return _FINAL.get(error.error_kind or Kind.UNKNOWN)


def _for_clients(code: str, kind: Kind | None) -> bool:
    """Return True if clients get the vendor's own code."""
    if code in _CODES:
        return True
    return kind is Kind.INVALID_REQUEST and _OPENAI_CODE.fullmatch(code) is not None


def error_data(error: Error, final: Words | None = None) -> dict[str, Any]:
    """Return an error as the value of the field `error`; `retry_after` is in seconds.

    `final` are the type and code of a failure that clients must not retry.
    """
    kind, code = final or _WORDS[error.error_kind or Kind.UNKNOWN]
    if final is None and error.code is not None and _for_clients(error.code, error.error_kind):
        code = error.code
    text = text_of(error)
    if error.retry_after is not None and error.error_kind is Kind.THROTTLED:
        text += "" if text.endswith((".", "!", "?")) else "."
        wait = ceil(10 * error.retry_after) / 10
        text += f" Please try again in {wait:g}s."  # Codex parses this text, and waits
    data: dict[str, Any] = {"message": text, "type": kind, "param": None, "code": code}
    if error.retry_after is not None:
        data["retry_after"] = error.retry_after
    return data


def error_reply(error: Error, status: int) -> Reply:
    """Return the response for a failure before the answer."""
    body = encode({"error": error_data(error)})
    return Reply(standard_status(status), body, headers_of(error))

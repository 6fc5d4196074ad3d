"""Classification of the Messages API's errors by message, type, status and header."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from swink_core import Classification, Failure, Model
from swink_core import StreamErrorKind as Kind
from swink_provider_anthropic import AnthropicProvider

PROVIDER = AnthropicProvider("anthropic")
MODEL = Model("anthropic", "any")


def _classified(
    status: int, type: str | None, message: str, headers: dict[str, str] | None = None
) -> Classification | None:
    body = msgspec.json.encode({"type": "error", "error": {"type": type, "message": message}})
    failure = Failure("request", status, headers or {}, body)
    PROVIDER.error_facts(failure)
    found: Classification | None = PROVIDER.classify_error(MODEL, failure)
    return found


ERRORS: list[tuple[int, str | None, str, Kind]] = [
    (400, "invalid_request_error", "max_tokens: Field required", Kind.INVALID_REQUEST),
    (
        400,
        "invalid_request_error",
        "prompt is too long: 210000 tokens > 200000 maximum",
        Kind.CONTEXT_WINDOW_EXCEEDED,
    ),
    (
        400,
        "invalid_request_error",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        Kind.CONTEXT_WINDOW_EXCEEDED,
    ),
    (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API.",
        Kind.QUOTA_EXHAUSTED,
    ),
    (
        400,
        "invalid_request_error",
        "You have reached your specified API usage limits. You will regain access on 2026-12-01.",
        Kind.QUOTA_EXHAUSTED,
    ),
    (
        400,
        "invalid_request_error",
        "Output blocked by content filtering policy",
        Kind.CONTENT_FILTERED,
    ),
    (401, "authentication_error", "invalid x-api-key", Kind.AUTH),
    (402, "billing_error", "Payment required", Kind.QUOTA_EXHAUSTED),
    (403, "permission_error", "Not allowed", Kind.AUTH),
    (404, "not_found_error", "model: claude-2.1", Kind.MODEL_NOT_FOUND),
    (409, None, "Conflict", Kind.OVERLOADED),
    (413, "request_too_large", "Request exceeds the maximum size", Kind.INVALID_REQUEST),
    (429, "rate_limit_error", "This request would exceed your rate limit", Kind.THROTTLED),
    (
        429,
        "rate_limit_error",
        "Usage credits are required for long context requests.",
        Kind.QUOTA_EXHAUSTED,
    ),
    (500, "api_error", "Internal server error", Kind.NETWORK),
    (504, "timeout_error", "Request timed out", Kind.NETWORK),
    (529, "overloaded_error", "Overloaded", Kind.OVERLOADED),
]


@pytest.mark.parametrize(
    ("status", "type", "message", "kind"), ERRORS, ids=[f"{s}-{m[:30]}" for s, _, m, _ in ERRORS]
)
def test_kinds(status: int, type: str | None, message: str, kind: Kind) -> None:
    found = _classified(status, type, message)
    assert found is not None
    assert found.kind is kind


@pytest.mark.parametrize("status", [418, 502, 503])
def test_what_the_api_does_not_say_is_left_to_the_status(status: int) -> None:
    assert _classified(status, None, "<html>") is None


@pytest.mark.parametrize(
    ("advice", "status", "type", "expected"),
    [
        (
            "true",
            429,
            "rate_limit_error",
            Classification(Kind.THROTTLED, 7, "rate_limit_error"),
        ),
        (
            "false",
            429,
            "rate_limit_error",
            Classification(Kind.QUOTA_EXHAUSTED, 7, "rate_limit_error"),
        ),
        (
            "true",
            400,
            "invalid_request_error",
            Classification(Kind.OVERLOADED, 7, "invalid_request_error"),
        ),
        (
            "false",
            400,
            "invalid_request_error",
            Classification(Kind.INVALID_REQUEST, 7, "invalid_request_error"),
        ),
        (
            "true",
            401,
            "authentication_error",
            Classification(Kind.AUTH, 7, "authentication_error"),
        ),
        (
            "false",
            529,
            "overloaded_error",
            Classification(Kind.OVERLOADED, 7, "overloaded_error"),
        ),
    ],
)
def test_advice_on_retrying_corrects_what_the_status_alone_would_say(
    advice: str, status: int, type: str, expected: Classification
) -> None:
    headers = {"X-Should-Retry": advice, "Retry-After": "7"}
    assert _classified(status, type, "Sorry", headers) == expected


@pytest.mark.parametrize("remaining", ["0", "5"])
def test_an_exhausted_allowance_says_when_to_come_back(remaining: str) -> None:
    headers: dict[str, Any] = {
        "anthropic-ratelimit-tokens-remaining": remaining,
        "anthropic-ratelimit-tokens-reset": "2000-01-01T00:00:00Z",
    }
    found = _classified(429, "rate_limit_error", "Slow down", headers)
    assert found is not None
    assert found.retry_after == (0.0 if remaining == "0" else None)

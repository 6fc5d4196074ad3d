"""Classification of errors by quota, reason, message and status, anywhere in the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from generate_content import body

from swink_core import Classification, Error, Failure, Model
from swink_core import StreamErrorKind as Kind
from swink_provider_gemini import GeminiProvider
from swink_testing.driver import drive_bytes

PROVIDER = GeminiProvider("gemini")
MODEL = Model("gemini", "any")


def _error(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": message, "details": list(details)}}


def _reason(word: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": word}


def _quota(*ids: str) -> dict[str, Any]:
    return {
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"quotaId": quota_id} for quota_id in ids],
    }


def _delay(text: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": text}


DEBUG = {"@type": "type.googleapis.com/google.rpc.DebugInfo", "detail": "[ORIGINAL ERROR]"}
PER_DAY = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
PER_MINUTE = "GenerateContentInputTokensPerModelPerMinute-FreeTier"

ERRORS: list[tuple[dict[str, Any], Classification]] = [
    (
        _error(400, "INVALID_ARGUMENT", "Request contains an invalid argument.", DEBUG),
        Classification(Kind.INVALID_REQUEST, None, "INVALID_ARGUMENT"),
    ),
    (
        _error(400, "INVALID_ARGUMENT", "API key not valid.", _reason("API_KEY_INVALID")),
        Classification(Kind.AUTH, None, "API_KEY_INVALID"),
    ),
    (
        _error(400, "INVALID_ARGUMENT", "API key expired. Please renew the API key."),
        Classification(Kind.AUTH, None, "INVALID_ARGUMENT"),
    ),
    (
        _error(
            400,
            "INVALID_ARGUMENT",
            "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        ),
        Classification(Kind.CONTEXT_WINDOW_EXCEEDED, None, "INVALID_ARGUMENT"),
    ),
    (
        _error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        Classification(Kind.UNSUPPORTED, None, "FAILED_PRECONDITION"),
    ),
    (
        _error(
            401, "UNAUTHENTICATED", "API keys are not supported.", _reason("CREDENTIALS_MISSING")
        ),
        Classification(Kind.AUTH, None, "UNAUTHENTICATED"),
    ),
    (
        _error(403, "PERMISSION_DENIED", "Not used before.", _reason("SERVICE_DISABLED")),
        Classification(Kind.AUTH, None, "PERMISSION_DENIED"),
    ),
    (
        _error(403, "PERMISSION_DENIED", "Enable billing first.", _reason("BILLING_DISABLED")),
        Classification(Kind.QUOTA_EXHAUSTED, None, "BILLING_DISABLED"),
    ),
    (
        _error(403, "PERMISSION_DENIED", "CachedContent not found (or permission denied)"),
        Classification(Kind.INVALID_REQUEST, None, "PERMISSION_DENIED"),
    ),
    (
        _error(404, "NOT_FOUND", "Not found: cache content metadata 875."),
        Classification(Kind.INVALID_REQUEST, None, "NOT_FOUND"),
    ),
    (
        _error(404, "NOT_FOUND", "models/x is not found for API version v1beta"),
        Classification(Kind.MODEL_NOT_FOUND, None, "NOT_FOUND"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later."),
        Classification(Kind.THROTTLED, None, "RESOURCE_EXHAUSTED"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "Too many.", _quota(PER_MINUTE), _delay("46s")),
        Classification(Kind.THROTTLED, 46, "RESOURCE_EXHAUSTED"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "Too many. Please retry in 46.5s."),
        Classification(Kind.THROTTLED, 46.5, "RESOURCE_EXHAUSTED"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "Too many. Please retry in 250ms."),
        Classification(Kind.THROTTLED, 0.25, "RESOURCE_EXHAUSTED"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "Too many.", _delay("1.25s")),
        Classification(Kind.THROTTLED, 1.25, "RESOURCE_EXHAUSTED"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "Too many.", _quota(PER_MINUTE, PER_DAY), _delay("9s")),
        Classification(Kind.QUOTA_EXHAUSTED, None, f"{PER_DAY}"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: m, limit: 0, model: x"),
        Classification(Kind.QUOTA_EXHAUSTED, None, "RESOURCE_EXHAUSTED"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
        Classification(Kind.QUOTA_EXHAUSTED, None, "RESOURCE_EXHAUSTED"),
    ),
    (
        _error(429, "RESOURCE_EXHAUSTED", "No capacity.", _reason("MODEL_CAPACITY_EXHAUSTED")),
        Classification(Kind.OVERLOADED, None, "MODEL_CAPACITY_EXHAUSTED"),
    ),
    (
        _error(499, "CANCELLED", "The operation was cancelled."),
        Classification(Kind.NETWORK, None, "CANCELLED"),
    ),
    (
        _error(500, "INTERNAL", "An internal error has occurred."),
        Classification(Kind.NETWORK, None, "INTERNAL"),
    ),
    (
        _error(501, "UNIMPLEMENTED", "Operation is not implemented."),
        Classification(Kind.UNSUPPORTED, None, "UNIMPLEMENTED"),
    ),
    (
        _error(503, "UNAVAILABLE", "The model is overloaded."),
        Classification(Kind.OVERLOADED, None, "UNAVAILABLE"),
    ),
    (
        _error(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
        Classification(Kind.NETWORK, None, "DEADLINE_EXCEEDED"),
    ),
]


def _failed(data: bytes, status: int) -> Failure:
    failure = Failure("request", status, {}, data)
    PROVIDER.error_facts(failure)
    return failure


@pytest.mark.parametrize(
    ("error", "expected"), ERRORS, ids=[f"{e['error']['code']}-{c.code}" for e, c in ERRORS]
)
@pytest.mark.parametrize("in_array", [False, True], ids=["", "in an array"])
def test_http_errors(error: dict[str, Any], expected: Classification, in_array: bool) -> None:
    data = json.dumps([error] if in_array else error).encode()
    failure = _failed(data, error["error"]["code"])
    assert PROVIDER.classify_error(MODEL, failure) == expected
    assert failure.message == error["error"]["message"]
    assert failure.type == error["error"]["status"]


@pytest.mark.parametrize(
    ("error", "expected"), ERRORS, ids=[f"{e['error']['code']}-{c.code}" for e, c in ERRORS]
)
async def test_the_same_errors_in_a_stream(error: dict[str, Any], expected: Classification) -> None:
    last = (await drive_bytes(PROVIDER, "any", [body(error)]))[-1]
    assert isinstance(last, Error)
    assert (last.error_kind, last.retry_after) == (expected.kind, expected.retry_after)
    assert last.error_message == error["error"]["message"]
    assert last.status == error["error"]["code"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a page", b"<html>Bad gateway</html>", None),
        ("no error", b"{}", None),
        ("an empty array", b"[]", None),
        ("a text", b'{"error": "upstream is away"}', "upstream is away"),
        ("another's shape", b'{"error": {"message": "No.", "code": "bad"}}', "No."),
        ("details of the wrong type", b'{"error": {"message": "No.", "details": "x"}}', "No."),
    ],
)
def test_what_stands_between_the_api_and_us_is_left_to_the_status(
    name: str, data: bytes, message: str | None
) -> None:
    failure = _failed(data, 502)
    assert failure.message == message
    assert PROVIDER.classify_error(MODEL, failure) is None

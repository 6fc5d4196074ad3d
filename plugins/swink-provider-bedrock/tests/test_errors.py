"""Classification of the API's HTTP errors by message, type and status."""

from __future__ import annotations

import msgspec
import pytest

from swink_core import Failure, Model
from swink_core import StreamErrorKind as Kind
from swink_provider_bedrock import BedrockProvider

PROVIDER = BedrockProvider("bedrock")
MODEL = Model("bedrock", "any")

ERRORS: list[tuple[int, str | None, str, Kind | None]] = [
    (400, "ValidationException", "Malformed input request.", Kind.INVALID_REQUEST),
    (
        400,
        "ValidationException",
        "The model returned the following errors: Input is too long for requested model.",
        Kind.CONTEXT_WINDOW_EXCEEDED,
    ),
    (
        400,
        "ValidationException",
        "prompt is too long: 210000 tokens > 200000 maximum",
        Kind.CONTEXT_WINDOW_EXCEEDED,
    ),
    (
        400,
        "ValidationException",
        "This model's maximum context length is 131072 tokens.",
        Kind.CONTEXT_WINDOW_EXCEEDED,
    ),
    (400, "ValidationException", "The provided model identifier is invalid.", Kind.MODEL_NOT_FOUND),
    (
        400,
        "ValidationException",
        "Invocation of model ID a.b with on-demand throughput isn\N{RIGHT SINGLE QUOTATION MARK}t "
        "supported. Retry your request with the ID or ARN of an inference profile.",
        Kind.MODEL_NOT_FOUND,
    ),
    (
        400,
        "ValidationException",
        "The maximum tokens you requested exceeds the model limit of 4096.",
        Kind.INVALID_REQUEST,
    ),
    (
        400,
        "ValidationException",
        "Output blocked by content filtering policy",
        Kind.CONTENT_FILTERED,
    ),
    (400, "ServiceQuotaExceededException", "Too many.", Kind.QUOTA_EXHAUSTED),
    (403, "AccessDeniedException", "User is not authorized to perform this.", Kind.AUTH),
    (
        403,
        "AccessDeniedException",
        "You don't have access to the model with the specified model ID.",
        Kind.MODEL_NOT_FOUND,
    ),
    (403, "ExpiredTokenException", "The security token is expired", Kind.AUTH),
    (403, "UnrecognizedClientException", "The security token is invalid.", Kind.AUTH),
    (403, "InvalidSignatureException", "The signature does not match.", Kind.AUTH),
    (404, "ResourceNotFoundException", "It has reached the end of its life.", Kind.MODEL_NOT_FOUND),
    (408, "ModelTimeoutException", "Model has timed out.", Kind.NETWORK),
    (424, "ModelErrorException", "The model failed.", Kind.NETWORK),
    (424, None, "Failed dependency", Kind.NETWORK),
    (429, "ThrottlingException", "Too many requests, please wait.", Kind.THROTTLED),
    (429, "ThrottlingException", "Too many tokens per day, please wait.", Kind.QUOTA_EXHAUSTED),
    (429, "ModelNotReadyException", "The model is not ready.", Kind.OVERLOADED),
    (500, "InternalServerException", "Try again.", Kind.NETWORK),
    (503, "ServiceUnavailableException", "Try again.", Kind.OVERLOADED),
    (502, None, "", None),
]  # fmt: skip


def _failure(status: int, headers: dict[str, str], body: bytes) -> Failure:
    failure = Failure("request", status, headers, body)
    PROVIDER.error_facts(failure)
    return failure


@pytest.mark.parametrize(
    ("status", "type", "message", "kind"), ERRORS, ids=[f"{s}-{m[:30]}" for s, _, m, _ in ERRORS]
)
def test_kinds(status: int, type: str | None, message: str, kind: Kind | None) -> None:
    headers = {"x-amzn-ErrorType": type} if type else {}
    failure = _failure(status, headers, msgspec.json.encode({"message": message}))
    found = PROVIDER.classify_error(MODEL, failure)
    assert (found.kind if found else None) is kind


@pytest.mark.parametrize(
    ("name", "headers", "body", "type", "message"),
    [
        (
            "a namespace after the type",
            {"X-Amzn-Errortype": "ValidationException:http://internal.amazon.com/coral/x/"},
            b'{"message":"No."}',
            "ValidationException",
            "No.",
        ),
        (
            "the type in the body, with its namespace before it",
            {},
            b'{"__type":"com.amazon.coral.service#ThrottlingException","Message":"No."}',
            "ThrottlingException",
            "No.",
        ),
        ("no type at all", {}, b'{"message":"No."}', None, "No."),
        ("a page of a proxy", {}, b"<html>", None, None),
        ("a list", {"x-amzn-errortype": "InternalFailure"}, b"[]", "InternalFailure", None),
    ],
)
def test_where_type_and_message_stand(
    name: str, headers: dict[str, str], body: bytes, type: str | None, message: str | None
) -> None:
    failure = _failure(400, headers, body)
    assert (failure.type, failure.message) == (type, message)

"""Classify the errors of the API: https://docs.aws.amazon.com/bedrock/latest/userguide/
troubleshooting-api-error-codes.html.

An HTTP error has its type in a header. Exceptions in a stream have the same type names, except that
the first letter is lower case, so one table covers both. `ValidationException` covers an exceeded
context window, an unknown model and an invalid parameter, so the text of the message is matched
before the type.
"""

from __future__ import annotations

from swink_core import Classification, Failure
from swink_core import StreamErrorKind as Kind
from swink_core.providers import by_tables

__all__ = ["EXPIRED", "classify", "error_type"]

WORDINGS = (
    ("tokens per day", Kind.QUOTA_EXHAUSTED),
    ("input is too long", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("prompt is too long", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("too many input tokens", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("maximum context length", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("exceeds the maximum number of tokens", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("exceed context limit", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("exceeds the context window", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("too large for model", Kind.CONTEXT_WINDOW_EXCEEDED),
    ("content filtering policy", Kind.CONTENT_FILTERED),
    ("model identifier is invalid", Kind.MODEL_NOT_FOUND),
    ("on-demand throughput isn", Kind.MODEL_NOT_FOUND),  # the model needs an inference profile
    ("have access to the model", Kind.MODEL_NOT_FOUND),
    ("reached the end of its life", Kind.MODEL_NOT_FOUND),
)

EXPIRED = frozenset({"ExpiredTokenException", "ExpiredToken", "UnrecognizedClientException"})
"""Types of 403 errors after which a request with new credentials may succeed."""

TYPES = {
    **dict.fromkeys(EXPIRED, Kind.AUTH),
    "AccessDeniedException": Kind.AUTH,
    "IncompleteSignature": Kind.AUTH,
    "IncompleteSignatureException": Kind.AUTH,
    "InvalidClientTokenId": Kind.AUTH,
    "InvalidSignatureException": Kind.AUTH,
    "MissingAuthenticationToken": Kind.AUTH,
    "MissingAuthenticationTokenException": Kind.AUTH,
    "NotAuthorized": Kind.AUTH,
    "OptInRequired": Kind.AUTH,
    "RequestExpired": Kind.AUTH,
    "SignatureDoesNotMatch": Kind.AUTH,
    "InternalError": Kind.NETWORK,
    "InternalFailure": Kind.NETWORK,
    "InternalServerError": Kind.NETWORK,
    "InternalServerException": Kind.NETWORK,
    "ModelErrorException": Kind.NETWORK,
    "ModelStreamErrorException": Kind.NETWORK,
    "ModelTimeoutException": Kind.NETWORK,
    "ModelNotReadyException": Kind.OVERLOADED,
    "ServiceUnavailable": Kind.OVERLOADED,
    "ServiceUnavailableException": Kind.OVERLOADED,
    "Throttling": Kind.THROTTLED,
    "ThrottlingException": Kind.THROTTLED,
    "TooManyRequestsException": Kind.THROTTLED,
    "ServiceQuotaExceededException": Kind.QUOTA_EXHAUSTED,
    "ResourceNotFoundException": Kind.MODEL_NOT_FOUND,
    "ValidationError": Kind.INVALID_REQUEST,
    "ValidationException": Kind.INVALID_REQUEST,
    "malformed_model_output": Kind.PROTOCOL,
    "malformed_tool_use": Kind.PROTOCOL,
}

STATUSES = {424: Kind.NETWORK}
"""424 means that the model failed; the documentation says to try again."""


def error_type(text: str) -> str:
    """Return the standard form of the error type in a header, body or stream exception.

    The namespace around the name is removed. The first letter becomes a capital, because exceptions
    in a stream begin with a lower-case letter.
    """
    name = text.rpartition("#")[2].partition(":")[0].strip()
    return name[:1].upper() + name[1:]


def classify(failure: Failure) -> Classification | None:
    """Classify a failure by the error message, then by the error type."""
    return by_tables(failure, {}, WORDINGS) or by_tables(failure, TYPES, (), STATUSES)

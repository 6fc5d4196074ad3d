"""The expected classification of every recorded error, reviewed by hand."""

from __future__ import annotations

from typing import Any, ClassVar

from swink_core import StreamErrorKind as Kind
from swink_test_helpers.corpus import Case
from swink_test_helpers.recorded_errors import RecordedErrors


class TestAnthropicErrors(RecordedErrors):
    models: ClassVar = {
        "anthropic": "anthropic/claude-sonnet-4-5",
    }
    expected: ClassVar = {
        "anthropic/http-400-pydantic-ai-anthropic-explicit-effort-xhigh-unsupported-model-errors":
            Kind.INVALID_REQUEST,
        "anthropic/http-400-ruby-llm-chat-real-error-scenarios-anthropic-claude-haiku-4-5-handles-co":
            Kind.CONTEXT_WINDOW_EXCEEDED,
        "anthropic/http-401-rig-auth-rejection-carries-identity": Kind.AUTH,
        "anthropic/http-403-permission-error": Kind.AUTH,
        "anthropic/http-404-pydantic-ai-model-name-suggestion-anthropic": Kind.MODEL_NOT_FOUND,
        "anthropic/http-404-rig-provider-error-response-surfaces-cleanly": Kind.MODEL_NOT_FOUND,
        # a limit of bytes, not of tokens: a model with a larger window would not help
        "anthropic/http-413-request-too-large": Kind.INVALID_REQUEST,
        "anthropic/http-429-rate-limit-with-retry-after": Kind.THROTTLED,
        "anthropic/http-500-api-error": Kind.NETWORK,
        "anthropic/http-529-overloaded": Kind.OVERLOADED,
        "anthropic/midstream-overloaded-after-text": Kind.OVERLOADED,
        "anthropic/truncated-before-message-stop": Kind.NETWORK,
    }  # fmt: skip

    def facts(self, case: Case) -> dict[str, Any]:
        body = case.expect["body_json"]
        wait = case.headers.get("retry-after")
        return {
            "error_message": body["error"]["message"],
            "request_id": body.get("request_id") or case.headers.get("request-id"),
            "retry_after": None if wait is None else float(wait),
        }

"""The expected classification of every recorded error, reviewed by hand."""

from __future__ import annotations

from typing import Any, ClassVar

from swink_core import StreamErrorKind as Kind
from swink_test_helpers.corpus import Case
from swink_test_helpers.recorded_errors import RecordedErrors

WAITS = {
    "gemini/http-429-ruby-llm-chat-real-error-scenarios-gemini-gemini-2-5-flash-handles-conte": 48
}
"""Seconds that an error asks to wait, in its details."""


class TestGeminiErrors(RecordedErrors):
    models: ClassVar = {
        "gemini": "gemini/gemini-3.8-flash",
    }
    expected: ClassVar = {
        "gemini/http-400-firebase-vertexai-streaming-failure-http-error": Kind.INVALID_REQUEST,
        "gemini/http-400-firebase-vertexai-unary-failure-api-key": Kind.AUTH,
        "gemini/http-400-firebase-vertexai-unary-failure-http-error": Kind.INVALID_REQUEST,
        "gemini/http-400-firebase-vertexai-unary-failure-invalid-context-cache-id":
            Kind.INVALID_REQUEST,
        "gemini/http-400-firebase-vertexai-unary-failure-unsupported-user-location":
            Kind.UNSUPPORTED,
        "gemini/http-400-input-token-count": Kind.CONTEXT_WINDOW_EXCEEDED,
        "gemini/http-400-opentelemetry-python-contrib-generate-content-invalid-temperature":
            Kind.INVALID_REQUEST,
        "gemini/http-401-newrelic-python-agent-cassette-2": Kind.AUTH,
        "gemini/http-403-firebase-googleai-unary-failure-generativelanguage-api-not-enabled":
            Kind.AUTH,
        "gemini/http-403-firebase-vertexai-unary-failure-firebaseml-api-not-enabled": Kind.AUTH,
        "gemini/http-403-firebase-vertexai-unary-failure-firebasevertexai-api-not-enabled":
            Kind.AUTH,
        "gemini/http-404-firebase-vertexai-unary-failure-model-not-found": Kind.MODEL_NOT_FOUND,
        "gemini/http-404-mirascope-google-gemini-2-5-flash": Kind.MODEL_NOT_FOUND,
        "gemini/http-404-newrelic-python-agent-cassette-2": Kind.MODEL_NOT_FOUND,
        # it says "quota", and means so many tokens a minute: it asks to come back in 48 s
        "gemini/http-429-ruby-llm-chat-real-error-scenarios-gemini-gemini-2-5-flash-handles-conte":
            Kind.THROTTLED,
        "gemini/http-503-high-demand": Kind.OVERLOADED,
    }  # fmt: skip

    def facts(self, case: Case) -> dict[str, Any]:
        message = case.expect["body_json"]["error"]["message"]
        return {"error_message": message, "retry_after": WAITS.get(case.name)}

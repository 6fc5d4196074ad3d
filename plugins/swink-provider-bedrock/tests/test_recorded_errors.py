"""The expected classification of every recorded error, reviewed by hand."""

from __future__ import annotations

from typing import Any, ClassVar

from swink_core import StreamErrorKind as Kind
from swink_test_helpers.corpus import Case
from swink_test_helpers.recorded_errors import RecordedErrors


class TestBedrockErrors(RecordedErrors):
    models: ClassVar = {
        "bedrock": "bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0",
        "bedrock_invoke": "bedrock/amazon.titan-text-express-v1",
    }
    content_type = "application/vnd.amazon.eventstream"
    expected: ClassVar = {
        "bedrock/http-400-input-too-long": Kind.CONTEXT_WINDOW_EXCEEDED,
        "bedrock/http-400-opentelemetry-python-contrib-converse-stream-with-invalid-model":
            Kind.MODEL_NOT_FOUND,
        "bedrock/http-400-pydantic-ai-model-name-suggestion-bedrock": Kind.MODEL_NOT_FOUND,
        "bedrock/http-403-dd-trace-py-bedrock-converse-error": Kind.AUTH,
        "bedrock/http-404-rig-retired-model-id-preserves-provider-error": Kind.MODEL_NOT_FOUND,
        "bedrock/http-429-throttling": Kind.THROTTLED,
        "bedrock/corrupt-prelude-crc": Kind.PROTOCOL,
        "bedrock/error-frame-unmodeled": Kind.NETWORK,
        "bedrock/exception-frame-internal-server-exception": Kind.NETWORK,
        "bedrock/exception-frame-model-stream-error-exception": Kind.NETWORK,
        "bedrock/exception-frame-validation-exception": Kind.CONTEXT_WINDOW_EXCEEDED,
        "bedrock/truncated-mid-frame": Kind.NETWORK,
        "bedrock_invoke/http-400-newrelic-amazon-titan-text-express-v1-malformed-request-body":
            Kind.INVALID_REQUEST,
        "bedrock_invoke/http-400-opentelemetry-python-contrib-invoke-model-with-invalid-model":
            Kind.MODEL_NOT_FOUND,
        "bedrock_invoke/http-403-dd-trace-py-meta-invoke-error": Kind.AUTH,
    }  # fmt: skip

    def facts(self, case: Case) -> dict[str, Any]:
        return {
            "error_message": case.expect["body_json"]["message"],
            "request_id": case.headers.get("x-amzn-requestid"),
        }

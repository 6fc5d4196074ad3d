"""The expected classification of every recorded error, reviewed by hand."""

from __future__ import annotations

from typing import ClassVar

from swink_core import StreamErrorKind as Kind
from swink_test_helpers.recorded_errors import RecordedErrors


class TestAzureErrors(RecordedErrors):
    models: ClassVar = {
        "azure": "azure/gpt-5-mini",
    }
    expected: ClassVar = {
        "azure/http-400-prompt-content-filter-2": Kind.CONTENT_FILTERED,
        "azure/http-400-prompt-content-filter-3": Kind.CONTENT_FILTERED,
        "azure/http-400-prompt-content-filter-4": Kind.CONTENT_FILTERED,
        "azure/http-401-ruby-llm-chat-error-handling-with-azure-grok-4-1-fast-non-reasoning-rais":
            Kind.AUTH,
        "azure/http-404-openllmetry-chat-reasoning": Kind.MODEL_NOT_FOUND,
        "azure/http-413-tokens-limit-reached": Kind.CONTEXT_WINDOW_EXCEEDED,
        "azure/http-429-ruby-llm-chat-real-error-scenarios-azure-grok-4-1-fast-non-reasoning-han":
            Kind.THROTTLED,
    }  # fmt: skip

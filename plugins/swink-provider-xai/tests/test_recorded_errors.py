"""The expected classification of every recorded error, reviewed by hand."""

from __future__ import annotations

from typing import ClassVar

from swink_core import StreamErrorKind as Kind
from swink_test_helpers.recorded_errors import RecordedErrors


class TestXAIErrors(RecordedErrors):
    models: ClassVar = {
        "xai": "xai/grok-4",
        "xai_responses": "xai/grok-4",
    }
    expected: ClassVar = {
        "xai/http-429-rate-limit-tpm": Kind.THROTTLED,
        "xai_responses/http-400-ruby-llm-chat-error-handling-with-xai-grok-4-1-fast-non-reasoning-raises":
            Kind.AUTH,
    }  # fmt: skip

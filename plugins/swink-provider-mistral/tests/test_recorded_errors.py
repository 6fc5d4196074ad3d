"""The expected classification of every recorded error, reviewed by hand."""

from __future__ import annotations

from typing import ClassVar

from swink_core import StreamErrorKind as Kind
from swink_test_helpers.recorded_errors import RecordedErrors


class TestMistralErrors(RecordedErrors):
    models: ClassVar = {
        "mistral": "mistral/mistral-small-latest",
    }
    expected: ClassVar = {
        "mistral/http-400-rig-blocking-error-carries-the-correlation-id": Kind.MODEL_NOT_FOUND,
        "mistral/http-401-ruby-llm-chat-error-handling-with-mistral-mistral-small-laraises-appropr":
            Kind.AUTH,
        "mistral/http-429-rate-limited-older": Kind.THROTTLED,
    }  # fmt: skip

"""The expected classification of every recorded error, reviewed by hand."""

from __future__ import annotations

from typing import ClassVar

from swink_core import StreamErrorKind as Kind
from swink_test_helpers.corpus import Case
from swink_test_helpers.recorded_errors import RecordedErrors


class TestOllamaErrors(RecordedErrors):
    models: ClassVar = {
        "ollama": "ollama/llama3.2",
    }
    content_type = "application/x-ndjson"
    expected: ClassVar = {
        "ollama/http-404-openinference-chat-error-records-model-name": Kind.MODEL_NOT_FOUND,
        "ollama/midstream-error": Kind.NETWORK,
    }  # fmt: skip

    async def test_the_servers_own_words_are_told(self, case: Case) -> None:
        error = await self.judged(case)
        assert not case.is_http_error or case.expect["body_json"]["error"] in error.error_message

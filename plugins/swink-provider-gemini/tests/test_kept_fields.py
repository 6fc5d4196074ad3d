"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_gemini import GeminiProvider
from swink_test_helpers.kept_fields import KeptFields

CUMULATIVE = "told anew in every frame; the last word counts"


class TestGenerateContent(KeptFields):
    provider = GeminiProvider("gemini")
    folders: ClassVar = {"gemini": "any"}
    package = "swink_provider_gemini"
    left_out: ClassVar = {
        "*.partialArgs.jsonPath": "where a piece of arguments belongs, which are put together",
        "*.partialArgs.boolValue": "a piece of arguments, which are put together",
        "*.partialArgs.nullValue": "a piece of arguments, which are put together",
        "*.willContinue": "whether a piece follows",
        "*.thought": "a part without text, which makes no block",
        "candidates.content.role": "always the model's",
        "candidates.finishReason": "becomes the message's stop reason",
        "candidates.index": "one answer is read",
        "candidates.safetyRatings.*": CUMULATIVE,
        "createTime": "when the answer was made, by the server's clock",
        "usageMetadata.*": CUMULATIVE,
    }

"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_cohere import CohereProvider
from swink_test_helpers.kept_fields import KeptFields


class TestCohere(KeptFields):
    provider = CohereProvider("cohere")
    folders: ClassVar = {}
    package = "swink_provider_cohere"
    left_out: ClassVar = {
        "type": "the type of the frame",
        "index": "which block it is, which the blocks say by their order",
        "delta.finish_reason": "becomes the message's stop reason",
        "delta.message.tool_calls.type": "the type of the call: only one exists",
    }

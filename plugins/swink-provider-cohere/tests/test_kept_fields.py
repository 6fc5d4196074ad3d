"""What recorded answers hold and messages do not, each field with its reason."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_cohere import CohereProvider
from swink_test_helpers.kept_fields import KeptFields


class TestCohere(KeptFields):
    provider = CohereProvider("cohere")
    folders: ClassVar = {}
    package = "swink_provider_cohere"
    left_out: ClassVar = {
        "type": "what kind of a frame it is",
        "index": "which block it is, which the blocks say by their order",
        "delta.finish_reason": "becomes the message's stop reason",
        "delta.message.tool_calls.type": "what kind of a call it is: there is one",
    }

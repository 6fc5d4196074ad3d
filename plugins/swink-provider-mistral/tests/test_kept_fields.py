"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_mistral import MistralProvider
from swink_test_helpers.kept_fields import KeptFields


class TestMistral(KeptFields):
    provider = MistralProvider("mistral")
    folders: ClassVar = {"mistral": "any"}
    package = "swink_provider_mistral"
    left_out: ClassVar = {
        "p": "padding against those who measure frames",
        "created": "when the answer was made, by the server's clock",
        "object": "the type of the frame",
        "choices.index": "one answer is read",
        "choices.finish_reason": "becomes the message's stop reason",
        "choices.delta.content.closed": "whether the reasoning is over, which the blocks say",
        "choices.delta.tool_calls.index": "which call it is, which the blocks say by their order",
        "choices.delta.tool_calls.type": "the type of the call: only one exists",
    }

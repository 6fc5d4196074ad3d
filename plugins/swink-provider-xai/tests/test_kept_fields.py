"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_xai import XAIProvider
from swink_test_helpers.kept_fields import KeptFields


class TestXAI(KeptFields):
    provider = XAIProvider("xai")
    folders: ClassVar = {}
    package = "swink_provider_xai"
    left_out: ClassVar = {
        "created": "when the frame was made, by the server's clock",
        "object": "the type of the frame",
        "choices.index": "one answer is read",
        "usage.completion_tokens": "what was reasoned, which is counted apart, is added to it",
        "usage.cost_in_usd_ticks": "becomes the message's cost, which the client sets",
    }

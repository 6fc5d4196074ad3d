"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from swink_provider_bedrock import BedrockProvider
from swink_provider_bedrock.eventstream import EventStreamDecoder, message
from swink_test_helpers.corpus import Case
from swink_test_helpers.kept_fields import KeptFields


class TestConverse(KeptFields):
    provider = BedrockProvider("bedrock")
    folders: ClassVar = {"bedrock": "any"}
    package = "swink_provider_bedrock"
    left_out: ClassVar = {
        "p": "padding against those who measure frames",
        "contentBlockIndex": "which block it is, which the blocks say by their order",
        "stopReason": "becomes the message's stop reason",
        "usage.inputTokens": "cached tokens are added to it",
        "delta.toolUse.input": "a piece of arguments, which are parsed",
    }

    def frames(self, case: Case) -> list[Any]:
        decoder = EventStreamDecoder()
        frames = [*decoder.feed(case.body), *decoder.finish()]
        return [msgspec.json.decode(body) for _, body in map(message, frames)]

"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_anthropic import AnthropicProvider
from swink_test_helpers.kept_fields import KeptFields

BEGUN_ANEW = "of the answer that the server began before this one, which is void"


class TestMessages(KeptFields):
    provider = AnthropicProvider("anthropic")
    folders: ClassVar = {"anthropic": "any"}
    package = "swink_provider_anthropic"
    left_out: ClassVar = {
        "type": "the type of the frame",
        "delta.type": "the type of the delta",
        "message.type": "the type of the object",
        "index": "which block it is, which the blocks say by their order",
        "delta.partial_json": "a piece of arguments, which are parsed",
        "delta.stop_reason": "becomes the message's stop reason",
        "*.input_tokens": "cached tokens are added to it",
        "message.usage.output_tokens": "the count at the start; the last one is the usage",
        "content_block.*": BEGUN_ANEW,
        "delta.signature": BEGUN_ANEW,
        "delta.text": BEGUN_ANEW,
        "delta.thinking": BEGUN_ANEW,
        "message.usage.cache_read_input_tokens": BEGUN_ANEW,
        "message.id": BEGUN_ANEW,
        "message.context_management.*": "what was edited before it began; the last word counts",
    }

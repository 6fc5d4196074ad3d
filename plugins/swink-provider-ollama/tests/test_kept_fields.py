"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_ollama import OllamaProvider
from swink_test_helpers.kept_fields import KeptFields


class TestOllama(KeptFields):
    provider = OllamaProvider("ollama")
    folders: ClassVar = {"ollama": "any"}
    package = "swink_provider_ollama"
    left_out: ClassVar = {
        "context": "tokens of the conversation, for the older API, which is not asked",
        "created_at": "when the line was made, by the server's clock",
        "done": "whether the answer is over",
        "message.tool_calls.function.index": "which call it is: the order of the blocks shows it",
    }

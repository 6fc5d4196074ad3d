"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_local import LocalProvider
from swink_test_helpers.kept_fields import KeptFields


class TestLocal(KeptFields):
    provider = LocalProvider("local")
    folders: ClassVar = {}
    package = "swink_provider_local"
    left_out: ClassVar = {
        "created": "when the frame was made, by the server's clock",
        "object": "the type of the frame",
        "choices.delta.tool_calls.type": "the type of the call: only one exists",
        "choices.finish_reason": "becomes the message's stop reason",
    }

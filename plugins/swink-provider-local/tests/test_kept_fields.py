"""What recorded answers hold and messages do not, each field with its reason."""

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
        "object": "what kind of a frame it is",
        "choices.delta.tool_calls.type": "what kind of a call it is: there is one",
        "choices.finish_reason": "becomes the message's stop reason",
    }

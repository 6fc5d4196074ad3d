"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_proxy import ProxyProvider
from swink_test_helpers.kept_fields import KeptFields


class TestProxy(KeptFields):
    provider = ProxyProvider("proxy")
    folders: ClassVar = {}
    package = "swink_provider_proxy"
    left_out: ClassVar = {
        "type": "the type of the event",
        "content_index": "which block it is, which the blocks say by their order",
    }

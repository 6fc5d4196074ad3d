"""Fields of recorded answers that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_azure import AzureProvider
from swink_test_helpers.kept_fields import KeptFields


class TestAzure(KeptFields):
    provider = AzureProvider("azure")
    folders: ClassVar = {}
    package = "swink_provider_azure"
    left_out: ClassVar = {
        "created": "when the frame was made, by the server's clock",
        "object": "the type of the frame",
    }

"""The conformance kit on this provider."""

from typing import ClassVar

from swink_core.testing.conformance import ProviderConformance


class TestProxy(ProviderConformance):
    provider = "proxy"
    model = "proxy/acme/large"
    expected_failures: ClassVar = {
        "conversations": "what another provider marked as its own goes to the gateway as it is: "
        "only the model behind it knows whether it is its own",
    }

"""The conformance kit on this provider."""

from swink_core.testing.conformance import ProviderConformance


class TestAzure(ProviderConformance):
    provider = "azure"
    model = "azure/my-deployment"

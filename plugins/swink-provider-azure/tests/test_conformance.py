"""The conformance kit on this provider."""

from swink_testing.conformance import ProviderConformance


class TestAzure(ProviderConformance):
    provider = "azure"
    model = "azure/my-deployment"

"""The conformance kit on this provider."""

from swink_testing.conformance import ProviderConformance


class TestXAI(ProviderConformance):
    provider = "xai"
    model = "xai/grok-4.7"

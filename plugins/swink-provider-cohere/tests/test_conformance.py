"""The conformance kit on Cohere."""

from swink_testing.conformance import ProviderConformance


class TestCohere(ProviderConformance):
    provider = "cohere"
    model = "cohere/command-a-plus-05-2026"

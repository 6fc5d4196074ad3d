"""The conformance kit on this provider."""

from swink_testing.conformance import ProviderConformance


class TestMistral(ProviderConformance):
    provider = "mistral"
    model = "mistral/mistral-medium-3-5"


class TestMistralByDefault(ProviderConformance):
    """Of the model that is asked where nobody names one."""

    provider = "mistral"

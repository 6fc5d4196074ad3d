"""The conformance kit on this provider."""

import pytest

from swink_testing.conformance import ProviderConformance


class TestMistral(ProviderConformance):
    provider = "mistral"
    model = "mistral/mistral-medium-3-5"


@pytest.mark.heavy
class TestMistralByDefault(ProviderConformance):
    """Conformance tests of the default model."""

    provider = "mistral"

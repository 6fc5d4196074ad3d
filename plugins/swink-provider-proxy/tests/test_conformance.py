"""The conformance kit on this provider."""

import pytest

from swink_testing.conformance import ProviderConformance


class TestProxy(ProviderConformance):
    provider = "proxy"
    model = "proxy/acme/large"


@pytest.mark.heavy
class TestProxyByDefault(ProviderConformance):
    """Conformance tests of the default model."""

    provider = "proxy"

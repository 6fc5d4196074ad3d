"""The conformance kit on this provider."""

from swink_testing.conformance import ProviderConformance


class TestProxy(ProviderConformance):
    provider = "proxy"
    model = "proxy/acme/large"


class TestProxyByDefault(ProviderConformance):
    """Conformance tests of the default model."""

    provider = "proxy"

"""The conformance kit on this provider."""

from swink_testing.conformance import ProviderConformance


class TestProxy(ProviderConformance):
    provider = "proxy"
    model = "proxy/acme/large"


class TestProxyByDefault(ProviderConformance):
    """Of the model that is asked where nobody names one."""

    provider = "proxy"

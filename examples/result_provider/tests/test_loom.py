"""Loom keeps what every provider promises."""

from swink_testing.conformance import ProviderConformance


class TestLoom(ProviderConformance):
    provider = "loom"

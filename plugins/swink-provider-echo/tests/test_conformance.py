"""What every provider promises, as far as it applies to one without a network."""

from __future__ import annotations

from swink_testing.conformance import ProviderConformance


class TestEcho(ProviderConformance):
    provider = "echo"

"""Conformance tests of this provider."""

from __future__ import annotations

from swink_testing.conformance import ProviderConformance


class TestBedrock(ProviderConformance):
    provider = "bedrock"

"""Conformance tests that apply to a provider without a network."""

from __future__ import annotations

from swink_testing.conformance import ProviderConformance


class TestEcho(ProviderConformance):
    provider = "echo"

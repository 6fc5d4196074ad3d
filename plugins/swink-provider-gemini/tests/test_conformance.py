"""Conformance tests of both providers."""

from __future__ import annotations

from swink_testing.conformance import ProviderConformance


class TestGemini(ProviderConformance):
    provider = "gemini"


class TestVertex(ProviderConformance):
    provider = "vertex"

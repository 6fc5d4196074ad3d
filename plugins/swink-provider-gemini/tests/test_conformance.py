"""What every provider promises, of these two."""

from __future__ import annotations

from swink_testing.conformance import ProviderConformance


class TestGemini(ProviderConformance):
    provider = "gemini"


class TestVertex(ProviderConformance):
    provider = "vertex"

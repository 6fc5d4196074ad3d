"""What every provider promises, of the presets that this package ships recordings of."""

from __future__ import annotations

from swink_testing.conformance import ProviderConformance


class TestOpenAI(ProviderConformance):
    provider = "openai"


class TestDeepSeek(ProviderConformance):
    provider = "deepseek"


class TestGroq(ProviderConformance):
    provider = "groq"


class TestOpenRouter(ProviderConformance):
    provider = "openrouter"

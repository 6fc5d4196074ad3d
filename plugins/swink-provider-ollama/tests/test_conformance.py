"""The conformance kit on Ollama."""

from swink_testing.conformance import ProviderConformance


class TestOllama(ProviderConformance):
    provider = "ollama"
    model = "ollama/qwen3:4b"


class TestOllamaByDefault(ProviderConformance):
    """Conformance tests of the default model."""

    provider = "ollama"

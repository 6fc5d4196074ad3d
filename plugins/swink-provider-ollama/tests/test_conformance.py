"""The conformance kit on Ollama."""

import pytest

from swink_testing.conformance import ProviderConformance


class TestOllama(ProviderConformance):
    provider = "ollama"
    model = "ollama/qwen3:4b"


@pytest.mark.heavy
class TestOllamaByDefault(ProviderConformance):
    """Conformance tests of the default model."""

    provider = "ollama"

"""Ollama's native chat API for swink: `ollama/<model>`, streamed as newline-delimited JSON."""

from swink_provider_ollama.provider import OllamaProvider

__all__ = ["OllamaProvider"]

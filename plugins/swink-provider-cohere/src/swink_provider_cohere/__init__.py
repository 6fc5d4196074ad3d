"""Cohere's chat API, version 2, for swink: `cohere/<model>`, streamed as SSE."""

from swink_provider_cohere.provider import CohereProvider

__all__ = ["CohereProvider"]

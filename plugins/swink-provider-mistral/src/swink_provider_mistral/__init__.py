"""Mistral's models for swink: Chat Completions in Mistral's dialect."""

from swink_provider_mistral.provider import MistralProvider

__all__ = ["MistralProvider"]

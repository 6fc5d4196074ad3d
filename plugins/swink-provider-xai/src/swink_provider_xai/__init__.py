"""xAI's Grok models for swink, over xAI's variants of Responses and Chat Completions."""

from swink_provider_xai.provider import XAIProvider

__all__ = ["XAIProvider"]

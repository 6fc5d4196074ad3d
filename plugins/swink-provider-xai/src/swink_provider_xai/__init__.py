"""xAI's Grok models for swink: Chat Completions in xAI's dialect."""

from swink_provider_xai.provider import XAIProvider

__all__ = ["XAIProvider"]

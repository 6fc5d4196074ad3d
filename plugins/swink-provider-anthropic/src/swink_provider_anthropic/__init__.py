"""Anthropic's Messages API for swink."""

from swink_provider_anthropic.provider import AnthropicProvider

__all__ = ["AnthropicProvider"]

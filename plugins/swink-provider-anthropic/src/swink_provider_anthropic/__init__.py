"""Anthropic's Messages API for swink, and Claude's own rules for other APIs to it."""

from swink_provider_anthropic import claude, schemas
from swink_provider_anthropic.provider import AnthropicProvider

__all__ = ["AnthropicProvider", "claude", "schemas"]

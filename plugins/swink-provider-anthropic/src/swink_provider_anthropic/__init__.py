"""Anthropic's Messages API for swink, and rules for Claude models on other vendors' APIs."""

from swink_provider_anthropic import claude, schemas
from swink_provider_anthropic.provider import AnthropicProvider

__all__ = ["AnthropicProvider", "claude", "schemas"]

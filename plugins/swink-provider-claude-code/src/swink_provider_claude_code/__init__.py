"""The `claude` command as a provider, with its own sign-in and tools; it needs no API key."""

from swink_provider_claude_code.provider import ClaudeCodeProvider

__all__ = ["ClaudeCodeProvider"]

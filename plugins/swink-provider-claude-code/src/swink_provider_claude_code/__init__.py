"""The `claude` command as a provider: its own sign-in, its own tools, no key."""

from swink_provider_claude_code.provider import ClaudeCodeProvider

__all__ = ["ClaudeCodeProvider"]

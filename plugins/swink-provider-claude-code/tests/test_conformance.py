"""The conformance kit on the claude command."""

from swink_testing.conformance import ProviderConformance


class TestClaudeCode(ProviderConformance):
    provider = "claude-code"
    model = "claude-code/sonnet"

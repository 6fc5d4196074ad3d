"""Fields of recorded runs that messages omit, with the reason for each."""

from __future__ import annotations

from typing import ClassVar

from swink_provider_claude_code import ClaudeCodeProvider
from swink_test_helpers.kept_fields import KeptFields

FRAME = "what kind of a line, an event or an object it is"
SETUP = "how the command is set up on its machine: no part of the answer"
CLOCK = "how long the command took, by its clock"
SUB_AGENT = "of a sub-agent, whose work is one call of a tool here"
EACH = "of one request of the run, or one model's; the run's figures are the usage"


class TestClaudeCode(KeptFields):
    provider = ClaudeCodeProvider("claude-code")
    folders: ClassVar = {"claude_cli": "default"}
    package = "swink_provider_claude_code"
    left_out: ClassVar = {
        **dict.fromkeys(("type", "*.type", "subtype", "message.role"), FRAME),
        **dict.fromkeys(
            (
                "cwd", "tools", "permissionMode", "claude_code_version", "hook_*",
                "mcp_servers.*", "slash_commands", "apiKeySource", "output_style", "agents",
                "skills", "plugins.*", "*_disabled", "memory_paths.*", "fast_mode_state",
            ),
            SETUP,
        ),
        **dict.fromkeys(("duration_*", "ttft_*", "time_to_request_ms", "timestamp"), CLOCK),
        **dict.fromkeys(("message.usage.*", "usage.iterations.*", "modelUsage.*"), EACH),
        **dict.fromkeys(
            (
                "task_*", "description", "last_tool_name", "patch.*", "status",
                "usage.total_tokens", "usage.tool_uses", "usage.duration_ms", "message.model",
                "message.content.*",
            ),
            SUB_AGENT,
        ),
        "rate_limit_info.*": "of the account, not of the answer",
        "estimated_tokens*": "a guess on the way; the run's figures are the usage",
        "event.index": "which block it is, which the blocks say by their order",
        "usage.input_tokens": "cached tokens are added to it",
        "usage.cache_creation.ephemeral_5m_input_tokens": "the rest of what was written",
        "usage.server_tool_use.*": "counted by model, for the cost",
        "total_cost_usd": "the cost where counts have unknown names; else the cost is counted",
        "result": "the last text once more",
        "is_error": "becomes the message's stop reason",
        "stop_reason": "becomes the message's stop reason",
        "message.stop_reason": "becomes the message's stop reason",
        "terminal_reason": "becomes the message's stop reason",
        "message.id": "of one request of the run; the run's id is the session's",
        "request_id": "of one request of the run; the run's id is the session's",
        "uuid": "a name for the line",
        "tool_use_result.*": "the tool's result once more, as its maker has it",
    }  # fmt: skip

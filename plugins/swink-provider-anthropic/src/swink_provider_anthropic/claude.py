"""Map options, turns and stop reasons for Claude models, on any API that serves them.

The `rules` in models.toml describe the differences between models. A request enables thinking with
an effort (`adaptive`) or with a token budget. Sources:
https://platform.claude.com/docs/en/build-with-claude/extended-thinking and …/adaptive-thinking.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any

from swink_core import (
    AssistantMessage,
    CacheStrategy,
    Context,
    ExtensionBlock,
    Model,
    Notice,
    StopReason,
    StreamOptions,
    ThinkingLevel,
)
from swink_core.providers import (
    LeftOut,
    folded_system,
    marked_system,
    rule_of,
)

__all__ = [
    "BLANK", "NEVER_RAN", "NOT_SIGNED", "STOP_REASONS", "cache_ttl", "changed_options",
    "is_misplaced", "placed", "takes_system", "thinking", "unanswered_calls",
]  # fmt: skip

FIVE_MINUTES = 300

STOP_REASONS = {
    "end_turn": StopReason.STOP,
    "stop_sequence": StopReason.STOP,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.LENGTH,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,
    "refusal": StopReason.CONTENT_FILTER,
}
"""Source: https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"""

BLANK = LeftOut("blank text, which the API refuses, was not sent")
NEVER_RAN = LeftOut("a call of a server-side tool without its result was not sent")
NOT_SIGNED = LeftOut("reasoning without a signature was not sent", "thinking_left_out")

ADAPTIVE = {"type": "adaptive", "display": "summarized"}
"""The value that requests adaptive thinking and its summary, which newer models omit by default."""


def thinking(
    options: StreamOptions, efforts: Mapping[ThinkingLevel, str]
) -> tuple[dict[str, Any] | None, str | None]:
    """Return the fields `thinking` and `effort` of the request; `None` for an omitted field.

    `efforts` maps the thinking levels that the model supports to the names in its API.
    """
    level, tokens = options.thinking_level, options.thinking_budget
    if level is None:
        return None, None
    if level is ThinkingLevel.OFF:
        return {"type": efforts.get(level, "disabled")}, None
    if efforts and not isinstance(options.thinking, int):
        return ADAPTIVE, efforts.get(level, level)
    return {"type": "enabled", "budget_tokens": tokens}, None


def cache_ttl(cache: CacheStrategy) -> dict[str, str]:
    """Return the field `ttl` with the cache's lifetime; `{}` if the caller set no lifetime.

    The API supports lifetimes of 5 minutes and of one hour.
    """
    if cache.ttl is None:
        return {}
    return {"ttl": "5m" if cache.ttl <= FIVE_MINUTES else "1h"}


def unanswered_calls(
    message: AssistantMessage,
    asked: Callable[[dict[str, Any]], str | None],
    answered: Callable[[dict[str, Any]], str | None],
) -> set[int]:
    """Return the `id()` of each block that calls a server-side tool and has no result.

    The API refuses such calls. For a native block that is a call, `asked` returns the call's id.
    For a native block that is a result, `answered` returns the id of the call that it answers. Both
    return `None` for other blocks.
    """
    native = {
        id(block): block.data
        for block in message.content
        if isinstance(block, ExtensionBlock) and isinstance(block.data, dict)
    }
    done = {answered(data) for data in native.values()}
    return {block for block, data in native.items() if (call := asked(data)) and call not in done}


def takes_system(model: Model, options: StreamOptions) -> bool:
    """Return whether a model accepts system messages inside the conversation.

    Always true with `rules=False`.
    """
    return not options.rules or rule_of(model).takes.get("system_messages") is not False


def placed(turns: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Move system messages to where the API accepts them: directly after a user message.

    https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages: a system
    message follows a user message, and precedes an answer or the end of the conversation. If no
    user message is next to a system message, the text of the system message is sent as a user
    message.
    """
    if "system" not in [turn["role"] for turn in turns]:
        return [*turns]
    found: list[dict[str, Any]] = []
    for answers, run in groupby(turns, lambda turn: turn["role"] == "assistant"):
        said = list(run)
        if not answers:
            said.sort(key=lambda turn: turn["role"] == "system")
            if said[0]["role"] == "system":
                said = [_as_user(turn) for turn in said]
        found += said
    return found


def is_misplaced(context: Context) -> bool:
    """Return True if the conversation has a system message where the API accepts none."""
    roles = [
        message.role.replace("tool_result", "user") for message in folded_system(context).messages
    ]
    turns = " ".join(role for role, _ in groupby(roles))
    return "assistant system" in turns or "system user" in turns


def _as_user(turn: dict[str, Any]) -> dict[str, Any]:
    content = [
        {**block, "text": marked_system(block["text"]).content} if "text" in block else block
        for block in turn["content"]
    ]
    return {"role": "user", "content": content}


def changed_options(model: Model, words: list[str]) -> tuple[Notice, ...]:
    """Return a notice for each option that is sent in a changed form.

    Each text in `words` consists of an option's name, a colon and an explanation of the change.
    """
    return tuple(
        Notice("option_changed", f"{model}: {what}", (f"options.{what.partition(':')[0]}",))
        for what in words
    )

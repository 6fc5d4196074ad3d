"""What Claude makes of options, and why it stops, whichever API it is asked through.

Thinking is asked for by an effort (`adaptive`) or by a number of tokens, as the catalogue says
of the model in `extra` (see `parameters`); with it, sampling is limited. Sources:
https://platform.claude.com/docs/en/build-with-claude/extended-thinking and …/adaptive-thinking.
Functions return what to send and, in words, what was left out or changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from swink_core import CacheStrategy, StopReason, StreamOptions, ThinkingLevel

__all__ = [
    "ADAPTIVE",
    "STOP_REASONS",
    "cache_ttl",
    "effort",
    "facts_of",
    "sampling",
    "thinking",
    "thinking_off",
]

LEAST_BUDGET = 1024
LEAST_TOP_P_WITH_THINKING = 0.95
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
"""https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons"""

EFFORTS = {
    ThinkingLevel.MINIMAL: ("low",),
    ThinkingLevel.LOW: ("low",),
    ThinkingLevel.MEDIUM: ("medium",),
    ThinkingLevel.HIGH: ("high",),
    ThinkingLevel.EXTRA_HIGH: ("xhigh", "max", "high"),
}
"""What a level is called, first the better fit. Only some models go beyond "high"."""

COMMON_EFFORTS = ("low", "medium", "high")

_TAKES_BUDGET = re.compile(r"claude-(instant|[123]\b|(opus|sonnet|haiku)-4([@:]|$|-([015]\b|2\d)))")

ADAPTIVE = {"type": "adaptive", "display": "summarized"}
"""Newer models leave the text of their thinking out unless it is asked for."""


def facts_of(model_id: str) -> dict[str, Any]:
    """Return what the name alone says of how to think: a Claude that nobody knows is new.

    Models that are no Claude, at an address that speaks the same API, are asked as the first
    were.
    """
    if "claude" not in model_id or _TAKES_BUDGET.search(model_id):
        return {"thinking": "budget"}
    return {"thinking": "adaptive"}


def effort(level: ThinkingLevel, facts: Mapping[str, Any]) -> str:
    """Return the model's word for a level."""
    known = facts.get("efforts", COMMON_EFFORTS)
    return next((word for word in EFFORTS[level] if word in known), "high")


def thinking_off(facts: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return how the model is told not to think, if it would."""
    match facts.get("thinking_off"):
        case "never":
            return None, ["thinking: this model cannot be told not to think"]
        case None:
            return None, []
        case word:
            return {"type": word}, []


def thinking(options: StreamOptions, limit: int) -> tuple[dict[str, Any] | None, list[str]]:
    """Return a number of tokens to think in, of the `limit` for the whole answer."""
    if options.tool_choice not in (None, "auto", "none"):
        return None, ["thinking: not together with a tool_choice that forces a call; left out"]
    budget = min(max(options.thinking_budget or 0, LEAST_BUDGET), limit - 1)
    if budget < LEAST_BUDGET:
        return None, [f"thinking: max_tokens leaves less than {LEAST_BUDGET} for it; left out"]
    return {"type": "enabled", "budget_tokens": budget}, []


def sampling(
    options: StreamOptions, facts: Mapping[str, Any], thinks: bool
) -> tuple[dict[str, float], list[str]]:
    """Return what may be sent of `temperature`, `top_p` and `top_k`; `thinks`: thinking was
    asked for.

    Newer models refuse both at once, and a temperature left unsaid is 1.
    """
    given = {name: getattr(options, name) for name in ("temperature", "top_p", "top_k")}
    wanted = {name: value for name, value in given.items() if value is not None}
    if facts.get("sampling") is False:
        return {}, [f"{name}: not with this model; left out" for name in wanted]
    changed = []
    if thinks:
        if wanted.pop("temperature", 1) != 1:
            changed.append("temperature: with thinking it is 1")
        if wanted.get("top_p", 1) < LEAST_TOP_P_WITH_THINKING:
            changed.append(f"top_p: with thinking at least {LEAST_TOP_P_WITH_THINKING}; left out")
            del wanted["top_p"]
        if wanted.pop("top_k", None) is not None:
            changed.append("top_k: not together with thinking; left out")
    elif {"temperature", "top_p"} <= wanted.keys():
        changed.append("top_p: not together with temperature; left out")
        del wanted["top_p"]
    return wanted, changed


def cache_ttl(cache: CacheStrategy) -> dict[str, str]:
    """Return the field that says how long a cache lives, where the caller says: 5 minutes, or
    an hour."""
    if cache.ttl is None:
        return {}
    return {"ttl": "5m" if cache.ttl <= FIVE_MINUTES else "1h"}
